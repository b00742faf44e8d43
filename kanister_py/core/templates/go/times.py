"""Go's time.Time, time.Duration and time.Location as values."""

from __future__ import annotations

from collections.abc import Callable

from kanister_py.core.templates.go.values import (
    INT64,
    TYPES_BY_NAME,
    Sized,
    named_type,
    pointer_to,
    register_zero,
    struct_type,
)

NANOSECOND = 1
MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

TIME = struct_type("time.Time")
DURATION = named_type("time.Duration", INT64)
LOCATION = struct_type("time.Location")
TYPES_BY_NAME.update({each.name: each for each in (TIME, DURATION, LOCATION)})


class Location:
    """A time zone: how far is it from UTC, and what is it called then?"""

    __slots__ = ("_lookup", "name")
    go_type = pointer_to(LOCATION)

    def __init__(self, name: str, lookup: Callable[[int], tuple[int, str]]) -> None:
        self.name = name
        self._lookup = lookup

    def at(self, unix_seconds: int) -> tuple[int, str]:
        """Offset from UTC in seconds, and abbreviation, at a moment."""
        return self._lookup(unix_seconds)

    def go_string(self) -> str:
        return self.name


def fixed_zone(name: str, offset_seconds: int) -> Location:
    """A zone that never moves its clocks."""
    return Location(name, lambda _: (offset_seconds, name))


UTC = fixed_zone("UTC", 0)


class Duration(Sized):
    """A span of time in nanoseconds."""

    __slots__ = ()
    go_type = DURATION


class Time:
    """A moment, to the nanosecond, and the zone it is shown in."""

    __slots__ = ("location", "unix_nanoseconds")
    go_type = TIME

    def __init__(self, unix_nanoseconds: int, location: Location = UTC) -> None:
        self.unix_nanoseconds = unix_nanoseconds
        self.location = location


ZERO_TIME = Time(-62_135_596_800 * SECOND)
register_zero(TIME, lambda: ZERO_TIME)
