"""What is to be looked at next? Keys in order, each once, and each in one pair of hands only."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from threading import Condition
from typing import Final, Generic, TypeVar

from kanister_py.executor.alarms import Alarm, Alarms
from kanister_py.ports.clock import Clock

Key = TypeVar("Key", bound=Hashable)

FIRST_DELAY_SECONDS: Final = 0.5
LONGEST_DELAY_SECONDS: Final = 300.0


class WorkQueue(Generic[Key]):
    """Keys that somebody has to look at, whatever kind of object they name.

    A key that is added while somebody looks at it comes again when they are done,
    so that no change goes unseen and no two look at one thing at once.
    """

    def __init__(self, clock: Clock, alarms: Alarms) -> None:
        self._clock = clock
        self._alarms = alarms
        self._changed = Condition()
        self._line: deque[Key] = deque()
        self._waiting: set[Key] = set()
        self._in_hand: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._later: dict[Key, Alarm] = {}
        self._is_closed = False

    def add(self, key: Key) -> None:
        """Have a key looked at as soon as somebody has time."""
        with self._changed:
            if self._is_closed or key in self._waiting:
                return
            self._waiting.add(key)
            if key not in self._in_hand:
                self._line.append(key)
                self._changed.notify()

    def add_later(self, key: Key, seconds: float) -> None:
        """Have a key looked at after some time; the earliest of several times counts."""
        with self._changed:
            if self._is_closed:
                return
            due = self._clock.monotonic() + seconds
            before = self._later.get(key)
            if before is not None and before.act is not None and before.due <= due:
                return
            if before is not None:
                before.call_off()
            self._later[key] = self._alarms.set(seconds, lambda: self._come_due(key))

    def _come_due(self, key: Key) -> None:
        with self._changed:
            self._later.pop(key, None)
        self.add(key)

    def add_failed(self, key: Key) -> float:
        """Have a key looked at again after a while that grows with each failure; say how long."""
        with self._changed:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
        # Beyond some power the bound is reached anyhow.
        seconds = min(FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 16), LONGEST_DELAY_SECONDS)
        self.add_later(key, seconds)
        return seconds

    def forget(self, key: Key) -> None:
        """Let the next failure be the first again."""
        with self._changed:
            self._failures.pop(key, None)

    def take(self) -> Key | None:
        """Wait for a key, and take it in hand; None once the queue is closed."""
        with self._changed:
            while not self._line and not self._is_closed:
                self._clock.wait(self._changed)
            if self._is_closed:
                return None
            key = self._line.popleft()
            self._waiting.discard(key)
            self._in_hand.add(key)
            return key

    def done(self, key: Key) -> None:
        """Put a key down again."""
        with self._changed:
            self._in_hand.discard(key)
            if key in self._waiting and not self._is_closed:
                self._line.append(key)
                self._changed.notify()

    def close(self) -> None:
        """Give out nothing any more."""
        with self._changed:
            self._is_closed = True
            self._line.clear()
            for alarm in self._later.values():
                alarm.call_off()
            self._changed.notify_all()

    @property
    def depth(self) -> int:
        """Say how many keys wait for somebody."""
        with self._changed:
            return len(self._line)

    @property
    def is_idle(self) -> bool:
        """Whether nobody looks at anything, and nothing waits."""
        with self._changed:
            return not self._line and not self._in_hand
