"""Fake clock that only moves when a test advances it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Condition, RLock

_START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Clock whose time passes only in `advance`.

    With `jumps`, a sleep or a wait with a timeout advances the clock instead of blocking. Use it in
    tests with a single thread, where no other thread can advance the clock.
    """

    def __init__(self, start: datetime = _START, *, jumps: bool = False) -> None:
        self._start = start
        self._passed = 0.0
        self._jumps = jumps
        self._changed = Condition(RLock())
        # By waiter, so that a waiter can be removed in constant time.
        self._waiting: dict[object, tuple[float, Condition]] = {}

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return self._passed

    @property
    def sleepers(self) -> int:
        """Number of threads that wait for this clock."""
        with self._changed:
            return len(self._waiting)

    def has_waiter_until(self, monotonic: float) -> bool:
        """Return whether a thread waits until exactly this time."""
        with self._changed:
            return any(abs(until - monotonic) < 1e-6 for until, _ in self._waiting.values())

    def advance(self, seconds: float) -> None:
        """Advance the clock, and wake the threads whose time has come."""
        with self._changed:
            self._passed += seconds
            due = [entry for entry in self._waiting.values() if entry[0] <= self._passed]
            self._changed.notify_all()
        for _, condition in due:
            with condition:
                condition.notify_all()

    def wait_for_sleepers(self, count: int, timeout_seconds: float = 30.0) -> bool:
        """Wait, in real time, until `count` threads wait for this clock."""
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
            # Read the time under the lock: another thread may have advanced the clock.
            until, waiter = self._passed + timeout_seconds, object()
            self._waiting[waiter] = (until, condition)
            self._changed.notify_all()
        try:
            condition.wait()
        finally:
            with self._changed:
                del self._waiting[waiter]
        return self._passed < until

    def _jump(self, seconds: float) -> None:
        with self._changed:
            self._passed += max(0.0, seconds)
