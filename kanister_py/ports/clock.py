"""Clock: the time, and waiting for it to pass."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from threading import Condition
from typing import Protocol


class Clock(Protocol):
    """The one source of time: a test hands in a clock that it moves itself."""

    def now(self) -> datetime:
        """Say what time it is, in UTC and aware of it."""

    def monotonic(self) -> float:
        """Say how many seconds have passed since some point that never moves."""

    def sleep(self, seconds: float) -> None:
        """Come back when so much time has passed."""

    def wait(self, condition: Condition, timeout_seconds: float | None = None) -> bool:
        """Wait, on a condition that the caller holds, until notified or out of time.

        As with any condition, look again at what was waited for: the answer
        only says whether time is left. Without a timeout it waits for ever.
        """


def pause(clock: Clock, changed: Condition, seconds: float, is_over: Callable[[], bool]) -> None:
    """Let time pass, unless something is over, of which a condition tells."""
    until = clock.monotonic() + seconds
    with changed:
        while not is_over() and (left := until - clock.monotonic()) > 0:
            clock.wait(changed, left)
