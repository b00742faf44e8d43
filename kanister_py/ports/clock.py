"""Clock: the current time, and waiting."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from threading import Condition
from typing import Protocol


class Clock(Protocol):
    """The only source of time. Tests use a clock that they advance themselves."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware and in UTC."""

    def monotonic(self) -> float:
        """Return the seconds since a fixed but arbitrary point in time."""

    def sleep(self, seconds: float) -> None:
        """Block for a number of seconds."""

    def wait(self, condition: Condition, timeout_seconds: float | None = None) -> bool:
        """Wait on a condition, whose lock the caller holds, until notified or timed out.

        Returns False if the time is over. As with any condition variable, the caller must check the
        awaited state again. Without a timeout it waits forever.
        """


def pause(clock: Clock, changed: Condition, seconds: float, is_over: Callable[[], bool]) -> None:
    """Wait for a number of seconds, or until `is_over` is true after `changed` was notified."""
    until = clock.monotonic() + seconds
    with changed:
        while not is_over() and (left := until - clock.monotonic()) > 0:
            clock.wait(changed, left)
