"""Go's time.Time, time.Duration and time.Location as values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC as PYTHON_UTC
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

from kanister_py.gotemplate.durations import (
    HOUR,
    LIMIT,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    SECOND,
    format_duration,
    nanoseconds_of,
)
from kanister_py.gotemplate.functions import GoError, go_function
from kanister_py.gotemplate.types import (
    INT,
    INT64,
    TYPES_BY_NAME,
    GoType,
    named_type,
    pointer_to,
    struct_type,
)
from kanister_py.gotemplate.values import Int64, Sized, register_class, register_zero

DAY_SECONDS = 86_400
# Day 0 of Unix time in Python's ordinals, which count from the year 1.
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
# Go's calendar is unlimited; Python's is, so we calculate in eras of 400 years.
_ERA_DAYS = 146_097

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

TIME = struct_type("time.Time")
DURATION = named_type("time.Duration", INT64)
LOCATION = struct_type("time.Location")
MONTH = named_type("time.Month", INT)
WEEKDAY = named_type("time.Weekday", INT)
TYPES_BY_NAME.update(
    {go_type.name: go_type for go_type in (TIME, DURATION, LOCATION, MONTH, WEEKDAY)}
)


class Location:
    """A time zone: offset from UTC and abbreviation at a moment."""

    __slots__ = ("_lookup", "name")
    go_type = pointer_to(LOCATION)

    def __init__(self, name: str, lookup: Callable[[int], tuple[int, str]]) -> None:
        self.name = name
        self._lookup = lookup

    def at(self, unix_seconds: int) -> tuple[int, str]:
        """Return the offset from UTC in seconds, and the abbreviation, at a moment."""
        return self._lookup(unix_seconds)

    def offset_of(self, abbreviation: str, unix_seconds: int) -> int | None:
        """Return the offset of the zone while it has this abbreviation, near a moment."""
        half_a_year = 182 * DAY_SECONDS
        for moment in (unix_seconds, unix_seconds - half_a_year, unix_seconds + half_a_year):
            offset, name = self._lookup(moment)
            if name == abbreviation:
                return offset
        return None

    def go_string(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        # Zones are compared by identity; only UTC is the same object in every process.
        if self is not UTC:
            raise TypeError(f"the zone {self.name} cannot be pickled")
        return "UTC"


def fixed_zone(name: str, offset_seconds: int) -> Location:
    """Return a zone with a constant offset."""
    return Location(name, lambda _: (offset_seconds, name))


def zone_of(name: str, zone: tzinfo) -> Location:
    """Convert a time zone of Python."""

    def lookup(unix_seconds: int) -> tuple[int, str]:
        try:
            moment = datetime(1970, 1, 1, tzinfo=PYTHON_UTC) + timedelta(seconds=unix_seconds)
            local = moment.astimezone(zone)
        except OverflowError:  # before the year 1 or after 9999
            return 0, name
        offset = local.utcoffset() or timedelta()
        return int(offset.total_seconds()), local.tzname() or name

    return Location(name, lookup)


UTC = fixed_zone("UTC", 0)


class Month(Sized):
    """A month; January is 1."""

    __slots__ = ()
    go_type = MONTH

    def go_string(self) -> str:
        return MONTHS[self - 1] if 1 <= self <= 12 else f"%!Month({int(self)})"


class Weekday(Sized):
    """A day of the week; Sunday is 0."""

    __slots__ = ()
    go_type = WEEKDAY

    def go_string(self) -> str:
        return WEEKDAYS[self] if 0 <= self <= 6 else f"%!Weekday({int(self)})"


class Duration(Sized):
    """A duration in nanoseconds."""

    __slots__ = ()
    go_type = DURATION

    def go_string(self) -> str:
        return format_duration(self)


for _go_type, _python_class in ((MONTH, Month), (WEEKDAY, Weekday), (DURATION, Duration)):
    register_class(_go_type, _python_class)


class Time:
    """A moment, to the nanosecond, and the zone in which it is shown."""

    __slots__ = ("location", "unix_nanoseconds")
    go_type = TIME

    def __init__(self, unix_nanoseconds: int, location: Location = UTC) -> None:
        self.unix_nanoseconds = unix_nanoseconds
        self.location = location

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Time)
            and other.unix_nanoseconds == self.unix_nanoseconds
            and other.location is self.location
        )

    def __hash__(self) -> int:
        return hash(self.unix_nanoseconds)

    def __repr__(self) -> str:
        return f"<Time {self.go_string()}>"

    def in_zone(self, location: Location) -> Time:
        return Time(self.unix_nanoseconds, location)

    def civil(self) -> Civil:
        """Return date and wall clock in the zone of this time."""
        return Civil(self)

    def go_string(self) -> str:
        civil = self.civil()
        fraction = f".{civil.nanosecond:09d}".rstrip("0").rstrip(".")
        return (
            f"{civil.year:04d}-{civil.month:02d}-{civil.day:02d} "
            f"{civil.hour:02d}:{civil.minute:02d}:{civil.second:02d}{fraction} "
            f"{numeric_offset(civil.offset)} {civil.abbreviation or numeric_offset(civil.offset)}"
        )

    def go_syntax(self) -> str:
        """Format the time as `%#v` does."""
        civil = self.civil()
        zone = (
            "time.UTC"
            if self.location is UTC
            else "time.Local"
            if self.location.name == "Local"
            else f'time.Location("{self.location.name}")'
        )
        return (
            f"time.Date({civil.year}, time.{MONTHS[civil.month - 1]}, {civil.day}, {civil.hour}, "
            f"{civil.minute}, {civil.second}, {civil.nanosecond}, {zone})"
        )


class Civil:
    """Date and wall clock of a moment in its zone."""

    def __init__(self, moment: Time) -> None:
        seconds, self.nanosecond = divmod(moment.unix_nanoseconds, SECOND)
        self.offset, self.abbreviation = moment.location.at(seconds)
        self.days, clock = divmod(seconds + self.offset, DAY_SECONDS)
        self.hour, clock = divmod(clock, 3600)
        self.minute, self.second = divmod(clock, 60)
        self.year, self.month, self.day = date_of(self.days)

    @property
    def weekday(self) -> int:
        return (self.days + 4) % 7

    @property
    def year_day(self) -> int:
        return self.days - days_until(self.year, 1, 1) + 1


def numeric_offset(seconds: int, colon: str = "") -> str:
    """Format an offset from UTC as `-0700` does."""
    # Go takes the sign from whole minutes: minus 30 seconds is +0000.
    minutes = int(seconds / 60)
    hour, minute = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hour:02d}{colon}{minute:02d}"


def date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day of the nth day after 1 January 1970."""
    era, ordinal = divmod(days + _EPOCH_ORDINAL - 1, _ERA_DAYS)
    # The days of one era are the years 1 to 400 for Python, so nothing overflows.
    day = date.fromordinal(ordinal + 1)
    return day.year + 400 * era, day.month, day.day


def days_until(year: int, month: int, day: int) -> int:
    """Count the days between 1 January 1970 and a date.

    As in Go, months and days may be outside their range: October 32 is November 1.
    """
    carried, month = divmod(month - 1, 12)
    era, year = divmod(year + carried - 1, 400)
    first = date(year + 1, month + 1, 1).toordinal()
    return era * _ERA_DAYS + first - _EPOCH_ORDINAL + day - 1


def days_in(year: int, month: int) -> int:
    return days_until(year, month + 1, 1) - days_until(year, month, 1)


def make_time(
    year: int,
    month: int,
    day: int,
    *,
    hour: int = 0,
    minute: int = 0,
    second: int = 0,
    nanosecond: int = 0,
    location: Location = UTC,
) -> Time:
    """Return the moment at which a wall clock in `location` shows this date and time."""
    seconds = days_until(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second
    offset, _ = location.at(seconds)
    if offset:
        # The first offset is that of the same wall clock in UTC. Look up the offset again at the
        # calculated moment because the clocks may have changed in between.
        offset, _ = location.at(seconds - offset)
    return Time((seconds - offset) * SECOND + nanosecond, location)


def from_unix(seconds: int, nanoseconds: int = 0, location: Location = UTC) -> Time:
    return Time(seconds * SECOND + nanoseconds, location)


def from_datetime(moment: datetime, location: Location = UTC) -> Time:
    """Convert a Python datetime, which must have a time zone."""
    delta = moment - datetime(1970, 1, 1, tzinfo=PYTHON_UTC)
    seconds = delta.days * DAY_SECONDS + delta.seconds
    return Time(seconds * SECOND + delta.microseconds * 1000, location)


ZERO_TIME = Time(-62_135_596_800 * SECOND)
register_zero(TIME, lambda: ZERO_TIME)


def parse_duration(text: str) -> Duration:
    """Parse a duration such as `1h30m`. Raises GoError with Go's message."""
    try:
        return Duration(nanoseconds_of(text))
    except ValueError as error:
        raise GoError(f"time: {error}") from None


# Methods that templates may call


def method(
    owner: GoType, name: str, signature: str, *, context: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a Python function as a method of a Go type; it takes the receiver first."""

    def declare(call: Callable[..., Any]) -> Callable[..., Any]:
        owner.methods[name] = go_function(signature, context=context)(call)
        return call

    return declare


def round_to(nanoseconds: int, unit: int) -> int:
    """Round half away from zero, as Duration.Round does."""
    if unit <= 0:
        return nanoseconds
    down = _whole(nanoseconds, unit) * unit
    if abs(nanoseconds - down) * 2 < unit:
        return down
    return down + unit if nanoseconds >= 0 else down - unit


def _truncate(nanoseconds: int, unit: int) -> int:
    return nanoseconds if unit <= 0 else _whole(nanoseconds, unit) * unit


def add_date(moment: Time, years: int, months: int, days: int) -> Time:
    """Add years, months and days to a time, keeping its wall clock."""
    civil = moment.civil()
    return make_time(
        civil.year + years,
        civil.month + months,
        civil.day + days,
        hour=civil.hour,
        minute=civil.minute,
        second=civil.second,
        nanosecond=civil.nanosecond,
        location=moment.location,
    )


def difference(later: Time, earlier: Time) -> Duration:
    """Return the duration between two moments, limited to the range of a duration."""
    span = later.unix_nanoseconds - earlier.unix_nanoseconds
    return Duration(max(-LIMIT, min(LIMIT - 1, span)))


def _since_zero(moment: Time) -> int:
    return moment.unix_nanoseconds - ZERO_TIME.unix_nanoseconds


_TIME_METHODS: dict[str, tuple[str, Callable[..., Any]]] = {
    "Add": (
        "func(time.Duration) time.Time",
        lambda t, d: Time(t.unix_nanoseconds + d, t.location),
    ),
    "AddDate": ("func(int, int, int) time.Time", add_date),
    "After": ("func(time.Time) bool", lambda t, u: t.unix_nanoseconds > u.unix_nanoseconds),
    "Before": ("func(time.Time) bool", lambda t, u: t.unix_nanoseconds < u.unix_nanoseconds),
    "Compare": (
        "func(time.Time) int",
        lambda t, u: (
            (t.unix_nanoseconds > u.unix_nanoseconds) - (t.unix_nanoseconds < u.unix_nanoseconds)
        ),
    ),
    "Day": ("func() int", lambda t: t.civil().day),
    "Equal": ("func(time.Time) bool", lambda t, u: t.unix_nanoseconds == u.unix_nanoseconds),
    "GoString": ("func() string", Time.go_syntax),
    "Hour": ("func() int", lambda t: t.civil().hour),
    "In": ("func(*time.Location) time.Time", Time.in_zone),
    "IsZero": ("func() bool", lambda t: t.unix_nanoseconds == ZERO_TIME.unix_nanoseconds),
    "Location": ("func() *time.Location", lambda t: t.location),
    "Minute": ("func() int", lambda t: t.civil().minute),
    "Month": ("func() time.Month", lambda t: Month(t.civil().month)),
    "Nanosecond": ("func() int", lambda t: t.unix_nanoseconds % SECOND),
    "Round": (
        "func(time.Duration) time.Time",
        lambda t, d: Time(round_to(_since_zero(t), d) + ZERO_TIME.unix_nanoseconds, t.location),
    ),
    "Second": ("func() int", lambda t: t.civil().second),
    "String": ("func() string", Time.go_string),
    "Sub": ("func(time.Time) time.Duration", difference),
    "Truncate": (
        "func(time.Duration) time.Time",
        lambda t, d: Time(_truncate(_since_zero(t), d) + ZERO_TIME.unix_nanoseconds, t.location),
    ),
    "UTC": ("func() time.Time", lambda t: t.in_zone(UTC)),
    "Unix": ("func() int64", lambda t: Int64(t.unix_nanoseconds // SECOND)),
    "UnixMicro": ("func() int64", lambda t: Int64(t.unix_nanoseconds // MICROSECOND)),
    "UnixMilli": ("func() int64", lambda t: Int64(t.unix_nanoseconds // MILLISECOND)),
    "UnixNano": ("func() int64", lambda t: Int64(t.unix_nanoseconds)),
    "Weekday": ("func() time.Weekday", lambda t: Weekday(t.civil().weekday)),
    "Year": ("func() int", lambda t: t.civil().year),
    "YearDay": ("func() int", lambda t: t.civil().year_day),
}


@method(TIME, "Local", "func() time.Time", context=True)
def _local(context: Any, moment: Time) -> Time:
    zone = context.effects.zone
    assert isinstance(zone, Location)
    return moment.in_zone(zone)


def _whole(nanoseconds: int, unit: int) -> int:
    """Count complete units, rounded towards zero."""
    count = abs(nanoseconds) // unit
    return count if nanoseconds >= 0 else -count


def _parts(nanoseconds: int, unit: int) -> float:
    """Count units with their fraction; integer part and fraction are added as in Go."""
    count = _whole(nanoseconds, unit)
    return float(count) + float(nanoseconds - count * unit) / unit


_DURATION_METHODS: dict[str, tuple[str, Callable[..., Any]]] = {
    "Abs": ("func() time.Duration", lambda d: Duration(min(abs(d), LIMIT - 1))),
    "Hours": ("func() float64", lambda d: _parts(d, HOUR)),
    "Microseconds": ("func() int64", lambda d: Int64(_whole(d, MICROSECOND))),
    "Milliseconds": ("func() int64", lambda d: Int64(_whole(d, MILLISECOND))),
    "Minutes": ("func() float64", lambda d: _parts(d, MINUTE)),
    "Nanoseconds": ("func() int64", Int64),
    "Round": ("func(time.Duration) time.Duration", lambda d, m: Duration(round_to(d, m))),
    "Seconds": ("func() float64", lambda d: _parts(d, SECOND)),
    "String": ("func() string", format_duration),
    "Truncate": ("func(time.Duration) time.Duration", lambda d, m: Duration(_truncate(d, m))),
}
for _owner, _methods in ((TIME, _TIME_METHODS), (DURATION, _DURATION_METHODS)):
    for _name, (_signature, _call) in _methods.items():
        method(_owner, _name, _signature)(_call)
method(MONTH, "String", "func() string")(Month.go_string)
method(WEEKDAY, "String", "func() string")(Weekday.go_string)
method(LOCATION, "String", "func() string")(Location.go_string)
