"""Timers of a run: what it has to do at a time, in order of time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeAlias

from kanister_py.ports.clock import Clock

_Timer: TypeAlias = tuple[float, int, Callable[[], None]]


class Timers:
    """Acts that wait for their time. The caller holds the lock of the run.

    Time is what the clock calls monotonic: the date may be set. There is no
    sleeping here: `wake_in` has `act` called after so many seconds.
    """

    def __init__(self, clock: Clock, wake_in: Callable[[float], None]) -> None:
        self._clock: Final = clock
        self._wake_in = wake_in
        self._waiting: list[_Timer] = []
        self._numbers = count()

    def set(self, seconds: float, act: Callable[[], None], *, since: float | None = None) -> float:
        """Have something done after so many seconds, counted from now; say when that is."""
        due = (self._clock.monotonic() if since is None else since) + seconds
        heappush(self._waiting, (due, next(self._numbers), act))
        self._wake_in(max(0.0, due - self._clock.monotonic()))
        return due

    def act(self, goes_on: Callable[[], bool]) -> None:
        """Do what is due, for as long as the run goes on, and ask to be woken for the rest."""
        while goes_on() and self._waiting and self._waiting[0][0] <= self._clock.monotonic():
            heappop(self._waiting)[2]()
        if goes_on() and self._waiting:
            self._wake_in(max(0.0, self._waiting[0][0] - self._clock.monotonic()))
