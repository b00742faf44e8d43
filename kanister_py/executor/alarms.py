"""Alarms: calls at a time, made by one thread for everything that waits for one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from threading import Condition, Thread
from typing import Final

from kanister_py.ports.clock import Clock

_LOG: Final = logging.getLogger(__name__)
_FEW: Final = 64


class Alarm:
    """One call at one time; it may be called off until then."""

    __slots__ = ("act", "due", "number")

    def __init__(self, due: float, number: int, act: Callable[[], None] | None) -> None:
        self.due = due
        self.number = number
        self.act = act

    def __lt__(self, other: Alarm) -> bool:
        return (self.due, self.number) < (other.due, other.number)

    def call_off(self) -> None:
        self.act = None


class Alarms:
    """Calls that are made in order of time. A call must be quick and must not raise.

    Time is what the clock calls monotonic: no call is early or late because
    the date was set.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = Condition()
        self._alarms: list[Alarm] = []
        self._numbers = count()
        self._is_started = False
        self._is_closed = False

    def set(self, seconds: float, act: Callable[[], None]) -> Alarm:
        """Have something called after so many seconds."""
        alarm = Alarm(self._clock.monotonic() + max(0.0, seconds), next(self._numbers), act)
        with self._changed:
            heappush(self._alarms, alarm)
            if self._alarms[0] is alarm:
                self._changed.notify_all()
            elif len(self._alarms) > _FEW and alarm.number % len(self._alarms) == 0:
                self._alarms = [each for each in self._alarms if each.act is not None]
                heapify(self._alarms)
            if not self._is_started:
                self._is_started = True
                Thread(target=self._run, name="alarms", daemon=True).start()
        return alarm

    def __len__(self) -> int:
        with self._changed:
            return sum(each.act is not None for each in self._alarms)

    def close(self) -> None:
        """Make no call any more."""
        with self._changed:
            self._is_closed = True
            self._alarms.clear()
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
                except Exception:  # noqa: BLE001 # all others still want to be called
                    _LOG.exception("A call of an alarm failed")

    def _next(self) -> Callable[[], None] | None:
        while not self._is_closed:
            if not self._alarms:
                self._clock.wait(self._changed)
                continue
            first = self._alarms[0]
            left = first.due - self._clock.monotonic()
            if first.act is not None and left > 0:
                self._clock.wait(self._changed, left)
                continue
            heappop(self._alarms)
            if first.act is not None:
                return first.act
        return None
