"""Timetables: cron lines in a time zone and intervals, windows in which nothing starts, jitter.

A clock that goes back or forth for daylight saving is met as Debian's cron meets it: a time
of day that there is not comes at the first moment there is, one that there is twice comes
the first time; lines whose minute or hour begins with `*` follow the clock on the wall.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.durations import InvalidDuration, parse_duration
from kanister_py.gotemplate.durations import SECOND


class InvalidTimetable(UsageError, reason="InvalidTimetable"):
    """A text that should say when something runs does not, or never lets it run."""


_FORMS: Final = (
    "write five fields (minute hour day month weekday, such as `0 2 * * *`), @hourly, @daily, "
    "@weekly, @monthly, @yearly, or @every 6h"
)
_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS: Final = 5
_SOME_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MOST_WINDOWS: Final = 100
_GROWTH: Final = 8
_MOST_SECONDS: Final = 366 * 86_400


class Cron(NamedTuple):
    """A cron line of five fields in a time zone."""

    line: str
    zone: tzinfo = UTC

    def next_after(self, moment: datetime, anchor: datetime) -> datetime | None:  # noqa: ARG002 # as an interval has it
        """Say when it comes next; None if not within fifty years."""
        if self.zone is not UTC and self._is_wild:
            return self._next_on_the_wall(moment)
        for found in CronSim(self.line, moment.astimezone(self.zone)):
            time = found.astimezone(UTC)
            # While an hour is repeated, a time of its first passage may be found: it has been.
            if time > moment:
                return time
        return None

    @property
    def _is_wild(self) -> bool:
        minute, hour, *_days = self.line.split()
        return minute.startswith("*") or hour.startswith("*")

    def _next_on_the_wall(self, moment: datetime) -> datetime | None:
        """Follow the clock on the wall, from one of its changes to the next."""
        offset = _offset_at(moment, self.zone)
        while True:
            found = next(CronSim(self.line, moment.astimezone(timezone(offset))), None)
            if found is None:
                return None
            time = found.astimezone(UTC)
            if _offset_at(time, self.zone) == offset:
                return time
            before, change = moment, time
            while change - before > timedelta(seconds=1):
                middle = before + (change - before) / 2
                if _offset_at(middle, self.zone) == offset:
                    before = middle
                else:
                    change = middle
            change = (before + timedelta(seconds=1)).replace(microsecond=0)
            moment, offset = change - timedelta(seconds=1), _offset_at(change, self.zone)


def _offset_at(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


class Every(NamedTuple):
    """An interval, counted from an anchor."""

    seconds: int

    def next_after(self, moment: datetime, anchor: datetime) -> datetime | None:
        period = timedelta(seconds=self.seconds)
        return anchor + (max(0, (moment - anchor) // period) + 1) * period


Timetable: TypeAlias = Cron | Every


def zone_of(name: str) -> tzinfo:
    """Give a time zone of the IANA database; UTC for none."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidTimetable(
            f"There is no time zone {name!r}; write one such as Europe/Berlin or UTC"
        ) from None


@lru_cache(maxsize=1024)
def parse_timetable(text: str, zone: tzinfo = UTC) -> Timetable:
    """Read a cron line, a name for one or an interval; refuse what never comes.

    Many schedules say the same, and one is read at each look at it.
    """
    words = text.split()
    if words[:1] == ["@every"]:
        return _interval(text, words[1:])
    if text.startswith(("TZ=", "CRON_TZ=")):
        raise InvalidTimetable(f"{text!r} names a time zone; say it in timeZone")
    line = _NAMED.get(text.strip(), " ".join(words))
    if len(line.split()) != _FIELDS:
        raise InvalidTimetable(f"{text!r} is no timetable; {_FORMS}")
    cron = Cron(line, zone)
    try:
        comes = cron.next_after(_SOME_TIME, _SOME_TIME)
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        if field == "day-of-month" and _is_read_without_months(line):
            raise InvalidTimetable(
                f"{text!r} never comes: none of its months has such a day"
            ) from None
        raise InvalidTimetable(
            f"{text!r} is no timetable: its {field} cannot be read; {_FORMS}"
        ) from None
    if comes is None:
        raise InvalidTimetable(f"{text!r} never comes: no day of fifty years fits it")
    return cron


def _is_read_without_months(line: str) -> bool:
    minute, hour, day, _months, weekday = line.split()
    try:
        CronSim(f"{minute} {hour} {day} * {weekday}", _SOME_TIME)
    except CronSimError:
        return False
    return True


def _interval(text: str, words: Sequence[str]) -> Every:
    try:
        seconds, rest = divmod(parse_duration("".join(words)), SECOND)
    except InvalidDuration as error:
        raise InvalidTimetable(f"{text!r} is no interval: {error.why}; {_FORMS}") from None
    if not 1 <= seconds <= _MOST_SECONDS or rest:
        raise InvalidTimetable(
            f"{text!r} is no interval: it must be one of whole seconds, of a year at most"
        )
    return Every(seconds)


def last_until(
    table: Timetable, after: datetime, until: datetime, anchor: datetime
) -> datetime | None:
    """Give the last time that is after one moment and no later than another."""
    span = timedelta(minutes=1)
    while after < until:
        start = max(after, until - span)
        found = table.next_after(start, anchor)
        if found is not None and found <= until:
            while (following := table.next_after(found, anchor)) and following <= until:
                found = following
            return found
        if start == after:
            return None
        # However long ago the last look was, few times are gone through.
        span = min(span * _GROWTH, until - after)
    return None


# Windows


class Window(NamedTuple):
    """A time that comes again and again, in which nothing starts."""

    begins: Cron
    seconds: float


def free_at(windows: Sequence[Window], moment: datetime) -> datetime | None:
    """Give the first moment, from one on, that is in no window; None if they never end."""
    for _ in range(_MOST_WINDOWS if windows else 1):
        ends = []
        for window in windows:
            span = timedelta(seconds=window.seconds)
            begun = last_until(window.begins, moment - span, moment, moment)
            if begun is not None:
                ends.append(begun + span)
        if not ends:
            return moment
        moment = max(ends)
    return None


def check_windows(windows: Sequence[Window]) -> None:
    """Refuse windows that leave no time."""
    if free_at(windows, _SOME_TIME) is None:
        raise InvalidTimetable("These windows leave no time at which anything could start")


# Jitter


def jitter_of(uid: str, most_seconds: float) -> timedelta:
    """Say by how much the runs of an object are late on purpose: always by the same."""
    share = int(hashlib.sha256(uid.encode()).hexdigest()[:12], 16) / 16**12
    return timedelta(seconds=int(share * (int(most_seconds) + 1)))
