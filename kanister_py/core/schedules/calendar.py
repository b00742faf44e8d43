"""Calendar of a Schedule: past runs and planned starts by day."""

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
_MAX_TIMES: Final = 2000


class Day(NamedTuple):
    """Day of the calendar, in the time zone of the Schedule."""

    day: date
    runs: tuple[RunRow, ...] = ()
    times: tuple[datetime, ...] = ()
    is_today: bool = False


def planned_starts(obj: Mapping[str, Any], now: datetime) -> Iterator[datetime]:
    """Yield the next start times of a Schedule."""
    return next_starts(situation_of(obj, parse_schedule(obj), now), _MAX_TIMES)


def calendar_of(
    obj: Mapping[str, Any], runs: Iterable[RunRow], now: datetime
) -> tuple[tuple[Day, ...], ...]:
    """Return weeks that begin on Monday, with the past runs and the planned starts of each day."""
    zone: tzinfo = zone_of(str(spec_of(obj).get("timeZone") or ""))
    today = now.astimezone(zone).date()
    first = today - timedelta(days=today.weekday(), weeks=_WEEKS_BEFORE)
    days = [first + timedelta(days=n) for n in range(7 * (_WEEKS_BEFORE + 1 + _WEEKS_AFTER))]
    ran = _by_day((run.created.astimezone(zone), run) for run in runs)
    local = (start.astimezone(zone) for start in planned_starts(obj, now))
    upcoming = takewhile(lambda start: start.date() <= days[-1], local)
    planned = _by_day((start, start) for start in upcoming)
    cells = [
        Day(day, tuple(ran.get(day, ())), tuple(planned.get(day, ())), day == today) for day in days
    ]
    return tuple(tuple(cells[at : at + 7]) for at in range(0, len(cells), 7))


def _by_day(pairs: Iterable[tuple[datetime, Any]]) -> dict[date, list[Any]]:
    by_day: dict[date, list[Any]] = {}
    for moment, value in sorted(pairs, key=lambda pair: pair[0]):
        by_day.setdefault(moment.date(), []).append(value)
    return by_day
