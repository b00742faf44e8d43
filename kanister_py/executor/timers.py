"""Timer service: delayed calls, made by one thread for all its users."""

from __future__ import annotations

import logging
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from threading import Condition, Thread
from typing import Final

from kanister_py.ports.clock import Clock

_LOG: Final = logging.getLogger(__name__)
_MIN_PURGED: Final = 64


class Timer:
    """A delayed call, which can be cancelled until it is made."""

    __slots__ = ("act", "due", "number")

    def __init__(self, due: float, number: int, act: Callable[[], None]) -> None:
        self.due = due
        self.number = number
        self.act: Callable[[], None] | None = act

    def __lt__(self, other: Timer) -> bool:
        return (self.due, self.number) < (other.due, other.number)

    @property
    def is_cancelled(self) -> bool:
        return self.act is None

    def cancel(self) -> None:
        self.act = None


class TimerService:
    """Service that makes delayed calls in order. A call must be quick; its exceptions are logged.

    All times are monotonic, so setting the system clock has no effect.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = Condition()
        self._timers: list[Timer] = []
        self._numbers = count()
        self._is_started = False
        self._is_closed = False

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Call `act` from the service's thread after this many seconds."""
        timer = Timer(self._clock.monotonic() + max(0.0, seconds), next(self._numbers), act)
        with self._changed:
            heappush(self._timers, timer)
            if self._timers[0] is timer:
                self._changed.notify_all()
            elif len(self._timers) > _MIN_PURGED and timer.number % len(self._timers) == 0:
                self._timers = [entry for entry in self._timers if not entry.is_cancelled]
                heapify(self._timers)
            if not self._is_started:
                self._is_started = True
                Thread(target=self._run, name="timers", daemon=True).start()
        return timer

    def __len__(self) -> int:
        with self._changed:
            return sum(not timer.is_cancelled for timer in self._timers)

    @property
    def next_due(self) -> float | None:
        """The monotonic time until which the thread sleeps; None if it has nothing to wait for."""
        with self._changed:
            return self._timers[0].due if self._timers else None

    def close(self) -> None:
        """Cancel all calls, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._timers.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                act = self._next()
                if self._is_closed:
                    return
            if act is not None:
                try:
                    act()
                except Exception:  # noqa: BLE001 # the calls of other users must still be made
                    _LOG.exception("A timer's call failed")

    def _next(self) -> Callable[[], None] | None:
        while not self._is_closed:
            if not self._timers:
                self._clock.wait(self._changed)
                continue
            first = self._timers[0]
            left = first.due - self._clock.monotonic()
            if first.act is not None and left > 0:
                self._clock.wait(self._changed, left)
                continue
            heappop(self._timers)
            if first.act is not None:
                return first.act
        return None
