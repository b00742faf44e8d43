"""Effects: the time, chance and time zones that a template is handed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.times import UTC, Location, Time


def _no_clock() -> Time:
    raise GoError("there is no clock here")


def _no_chance(size: int) -> bytes:
    raise GoError(f"there is no randomness here: {size} bytes were asked for")


def _no_zones(name: str) -> Location:
    raise GoError(f"unknown time zone {name}")


def _not_stopped() -> bool:
    return False


class Effects(NamedTuple):
    """Time and randomness as an execution sees them.

    `zone` is what Go calls Local; `load_zone` finds others by their IANA name and
    raises `GoError` for a name nobody knows. `elsewhere` carries out what costs too
    much here: it calls a function of bytes in a process with limits, until the second
    argument returns true, and raises `LimitExceeded`; `is_stopped` is that argument.
    """

    now: Callable[[], Time] = _no_clock
    zone: Location = UTC
    load_zone: Callable[[str], Location] = _no_zones
    random_bytes: Callable[[int], bytes] = _no_chance
    elsewhere: Callable[[bytes, Callable[[], bool]], bytes] | None = None
    is_stopped: Callable[[], bool] = _not_stopped


NO_EFFECTS = Effects()
