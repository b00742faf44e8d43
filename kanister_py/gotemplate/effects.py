"""Effects of a template: clock, randomness and time zones."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.times import UTC, Location, Time


def _no_clock() -> Time:
    raise GoError("templates have no clock here")


def _no_chance(size: int) -> bytes:
    raise GoError(f"templates have no random numbers here: {size} bytes were requested")


def _no_zones(name: str) -> Location:
    raise GoError(f"unknown time zone {name}")


def _not_stopped() -> bool:
    return False


class Effects(NamedTuple):
    """Clock, randomness and time zones that a template may use.

    `zone` is Go's Local. `load_zone` returns a zone by its IANA name and raises `GoError`
    if there is none. `run_in_process`, if set, runs expensive work: it passes bytes to a
    process with limits and returns its answer, or raises `LimitExceeded`. The process is
    stopped when the second argument returns True; `is_stopped` is passed for it.
    """

    now: Callable[[], Time] = _no_clock
    zone: Location = UTC
    load_zone: Callable[[str], Location] = _no_zones
    random_bytes: Callable[[int], bytes] = _no_chance
    run_in_process: Callable[[bytes, Callable[[], bool]], bytes] | None = None
    is_stopped: Callable[[], bool] = _not_stopped


NO_EFFECTS = Effects()
