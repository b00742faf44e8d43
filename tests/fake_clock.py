"""A clock that stands still until somebody moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Condition, RLock

_START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """For tests: time passes only in `advance`.

    With `jumps`, a sleep, and a wait that has a timeout, move the clock by
    themselves instead of blocking: right for a test with one thread, where
    nobody else could move it.
    """

    def __init__(self, start: datetime = _START, *, jumps: bool = False) -> None:
        self._start = start
        self._passed = 0.0
        self._jumps = jumps
        self._changed = Condition(RLock())
        self._waiting: list[tuple[float, Condition]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return self._passed

    @property
    def sleepers(self) -> int:
        """Say how many threads wait for this clock to move."""
        with self._changed:
            return len(self._waiting)

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake everybody whose time is up."""
        with self._changed:
            self._passed += seconds
            due = [entry for entry in self._waiting if entry[0] <= self._passed]
            self._changed.notify_all()
        for _, condition in due:
            with condition:
                condition.notify_all()

    def wait_for_sleepers(self, count: int, timeout_seconds: float = 30.0) -> bool:
        """Wait, in real time, until so many threads wait for this clock to move."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._waiting) >= count, timeout_seconds)

    def sleep(self, seconds: float) -> None:
        until = self._passed + seconds
        condition = Condition()
        with condition:
            while self._passed < until:
                self.wait(condition, until - self._passed)

    def wait(self, condition: Condition, timeout_seconds: float | None = None) -> bool:
        if timeout_seconds is None:
            return condition.wait()
        if self._jumps:
            self._jump(timeout_seconds)
            return False
        if timeout_seconds <= 0:
            return False
        with self._changed:
            # Not before: the clock may have been moved by whoever holds it.
            entry = (self._passed + timeout_seconds, condition)
            self._waiting.append(entry)
            self._changed.notify_all()
        try:
            condition.wait()
        finally:
            with self._changed:
                self._waiting.remove(entry)
        return self._passed < entry[0]

    def _jump(self, seconds: float) -> None:
        with self._changed:
            self._passed += max(0.0, seconds)
