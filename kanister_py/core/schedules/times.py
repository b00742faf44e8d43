"""Timetables: cron lines in a time zone, intervals, windows and jitter.

Changes of daylight saving time are handled like in Debian's cron. A time of day that is skipped
fires at the first moment after the gap; one that is repeated fires once. Lines whose minute or hour
begins with `*` follow local time.
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
    """A timetable is invalid or never fires."""


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
_MAX_WINDOWS: Final = 100
_GROWTH: Final = 8
_MAX_SECONDS: Final = 366 * 86_400


class Cron(NamedTuple):
    """A cron line of five fields in a time zone."""

    line: str
    zone: tzinfo = UTC

    def next_after(self, moment: datetime, anchor: datetime) -> datetime | None:  # noqa: ARG002 # same signature as an interval
        """Return the next time, or None if there is none within fifty years."""
        if self.zone is not UTC and self._follows_local_time:
            return self._next_in_local_time(moment)
        for candidate in CronSim(self.line, moment.astimezone(self.zone)):
            time = candidate.astimezone(UTC)
            # While an hour is repeated, CronSim may return a time of its first pass, which is over.
            if time > moment:
                return time
        return None

    @property
    def _follows_local_time(self) -> bool:
        minute, hour, *_days = self.line.split()
        return minute.startswith("*") or hour.startswith("*")

    def _next_in_local_time(self, moment: datetime) -> datetime | None:
        """Search in local time, from one change of the offset to the next."""
        offset = _offset_at(moment, self.zone)
        while True:
            candidate = next(CronSim(self.line, moment.astimezone(timezone(offset))), None)
            if candidate is None:
                return None
            time = candidate.astimezone(UTC)
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
    """Interval that is counted from an anchor."""

    seconds: int

    def next_after(self, moment: datetime, anchor: datetime) -> datetime | None:
        period = timedelta(seconds=self.seconds)
        return anchor + (max(0, (moment - anchor) // period) + 1) * period


Timetable: TypeAlias = Cron | Every


def zone_of(name: str) -> tzinfo:
    """Return a time zone of the IANA database; UTC for an empty name."""
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
    """Parse a cron line, its name, or an interval. Raises InvalidTimetable if it never fires.

    Cached, because a timetable is parsed at every reconcile.
    """
    words = text.split()
    if words[:1] == ["@every"]:
        return _interval(text, words[1:])
    if text.startswith(("TZ=", "CRON_TZ=")):
        raise InvalidTimetable(f"{text!r} contains a time zone; set timeZone instead")
    line = _NAMED.get(text.strip(), " ".join(words))
    if len(line.split()) != _FIELDS:
        raise InvalidTimetable(f"{text!r} is not a valid schedule; {_FORMS}")
    cron = Cron(line, zone)
    try:
        first_time = cron.next_after(_SOME_TIME, _SOME_TIME)
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        if field == "day-of-month" and _is_valid_without_months(line):
            raise InvalidTimetable(
                f"{text!r} never fires: none of its months has such a day"
            ) from None
        raise InvalidTimetable(
            f"{text!r} is not a valid schedule: its {field} is invalid; {_FORMS}"
        ) from None
    if first_time is None:
        raise InvalidTimetable(f"{text!r} never fires: it matches no day within fifty years")
    return cron


def _is_valid_without_months(line: str) -> bool:
    minute, hour, day, _months, weekday = line.split()
    try:
        CronSim(f"{minute} {hour} {day} * {weekday}", _SOME_TIME)
    except CronSimError:
        return False
    return True


def _interval(text: str, words: Sequence[str]) -> Every:
    try:
        seconds, remainder = divmod(parse_duration("".join(words)), SECOND)
    except InvalidDuration as error:
        raise InvalidTimetable(f"{text!r} is not an interval: {error.why}; {_FORMS}") from None
    if not 1 <= seconds <= _MAX_SECONDS or remainder:
        raise InvalidTimetable(
            f"{text!r} is not an interval: it must have whole seconds, and a year at most"
        )
    return Every(seconds)


def last_until(
    table: Timetable, after: datetime, until: datetime, anchor: datetime
) -> datetime | None:
    """Return the last time after `after` and not later than `until`, or None."""
    span = timedelta(minutes=1)
    while after < until:
        start = max(after, until - span)
        latest = table.next_after(start, anchor)
        if latest is not None and latest <= until:
            while (following := table.next_after(latest, anchor)) and following <= until:
                latest = following
            return latest
        if start == after:
            return None
        # Grow the span, so that few times are visited even after a long pause.
        span = min(span * _GROWTH, until - after)
    return None


# Windows


class Window(NamedTuple):
    """Recurring time span in which no run starts."""

    begins: Cron
    seconds: float


def unblocked_at(windows: Sequence[Window], moment: datetime) -> datetime | None:
    """Return the first moment from `moment` on that is outside all windows, or None if there is
    none.
    """
    for _ in range(_MAX_WINDOWS if windows else 1):
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
    """Raise InvalidTimetable if the windows block every moment."""
    if unblocked_at(windows, _SOME_TIME) is None:
        raise InvalidTimetable("The windows leave no time at which a run could start")


# Jitter


def jitter_of(uid: str, max_seconds: float) -> timedelta:
    """Return the constant delay of the runs of an object."""
    share = int(hashlib.sha256(uid.encode()).hexdigest()[:12], 16) / 16**12
    return timedelta(seconds=int(share * (int(max_seconds) + 1)))
