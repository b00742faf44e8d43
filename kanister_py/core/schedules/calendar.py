"""Calendar of a schedule: what ran on each day, and what is to come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta, tzinfo
from itertools import takewhile
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.overview import RunRow
from kanister_py.core.kube.parts import spec_of
from kanister_py.core.schedules.decisions import next_starts
from kanister_py.core.schedules.model import parse_schedule
from kanister_py.core.schedules.status import situation_of
from kanister_py.core.schedules.times import zone_of

_WEEKS_BEFORE: Final = 4
_WEEKS_AFTER: Final = 4
_MOST_TIMES: Final = 2000


class Day(NamedTuple):
    """One day of the calendar, in the schedule's own time zone."""

    day: date
    runs: tuple[RunRow, ...] = ()
    times: tuple[datetime, ...] = ()
    is_today: bool = False


def planned_starts(obj: Mapping[str, Any], now: datetime) -> Iterator[datetime]:
    """Say when a Schedule starts next, one after the other."""
    return next_starts(situation_of(obj, parse_schedule(obj), now), _MOST_TIMES)


def calendar_of(
    obj: Mapping[str, Any], runs: Iterable[RunRow], now: datetime
) -> tuple[tuple[Day, ...], ...]:
    """Lay some weeks out, Mondays first: what ran before now, and what starts after."""
    zone: tzinfo = zone_of(str(spec_of(obj).get("timeZone") or ""))
    today = now.astimezone(zone).date()
    first = today - timedelta(days=today.weekday(), weeks=_WEEKS_BEFORE)
    days = [first + timedelta(days=n) for n in range(7 * (_WEEKS_BEFORE + 1 + _WEEKS_AFTER))]
    ran = _by_day((each.created.astimezone(zone), each) for each in runs)
    local = (each.astimezone(zone) for each in planned_starts(obj, now))
    coming = takewhile(lambda each: each.date() <= days[-1], local)
    planned = _by_day((each, each) for each in coming)
    cells = [
        Day(day, tuple(ran.get(day, ())), tuple(planned.get(day, ())), day == today) for day in days
    ]
    return tuple(tuple(cells[at : at + 7]) for at in range(0, len(cells), 7))


def _by_day(pairs: Iterable[tuple[datetime, Any]]) -> dict[date, list[Any]]:
    found: dict[date, list[Any]] = {}
    for moment, value in sorted(pairs, key=lambda each: each[0]):
        found.setdefault(moment.date(), []).append(value)
    return found
