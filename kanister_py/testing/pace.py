"""Clock of a stage: the same time in every run, and quicker to wait for."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from threading import Condition, Lock
from typing import Final

START: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class StageClock:
    """Clock that stands still while things happen, and moves only with waits that run out.

    What happens between two such waits happens at the same moment, so that a run
    has the same times on a slow machine as on a fast one. A wait takes its
    length divided by `speed`; for real processes that must be one.
    """

    def __init__(self, start: datetime = START, *, speed: float = 1.0) -> None:
        self.speed = speed
        self._start = start
        self._passed = 0.0
        self._lock = Lock()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return self._passed

    def sleep(self, seconds: float) -> None:
        began = self._passed
        time.sleep(max(0.0, seconds) / self.speed)
        self._pass(began + seconds)

    def wait(self, condition: Condition, timeout_seconds: float | None = None) -> bool:
        if timeout_seconds is None:
            return condition.wait()
        began = self._passed
        if condition.wait(max(0.0, timeout_seconds) / self.speed):
            return True
        self._pass(began + timeout_seconds)
        return False

    def _pass(self, until: float) -> None:
        with self._lock:
            self._passed = max(self._passed, until)
