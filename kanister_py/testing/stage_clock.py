"""Clock of a stage: identical times in every run, and short waits."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from threading import Condition, Lock
from typing import Final

START: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class StageClock:
    """Clock that only advances when a wait times out.

    Everything between two such waits has the same time, so that a run has the same times on slow
    and fast machines. A wait takes its length divided by `speed`, which must be 1 for real
    processes.
    """

    def __init__(self, start: datetime = START, *, speed: float = 1.0) -> None:
        self.speed = speed
        self._start = start
        self._elapsed = 0.0
        self._lock = Lock()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        start = self._elapsed
        time.sleep(max(0.0, seconds) / self.speed)
        self._advance(start + seconds)

    def wait(self, condition: Condition, timeout_seconds: float | None = None) -> bool:
        if timeout_seconds is None:
            return condition.wait()
        start = self._elapsed
        if condition.wait(max(0.0, timeout_seconds) / self.speed):
            return True
        self._advance(start + timeout_seconds)
        return False

    def _advance(self, until: float) -> None:
        with self._lock:
            self._elapsed = max(self._elapsed, until)
