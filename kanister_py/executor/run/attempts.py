"""Attempts at phases under way in this process, and the timers that may end them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeAlias

from kanister_py.core.actionsets.rules import PhaseRules
from kanister_py.core.actionsets.status import Place
from kanister_py.core.errors import KanisterError, RunCancelled, UsageError
from kanister_py.executor.phase_context import RunningPhase, StopSignal
from kanister_py.executor.working import Ticket, Workers
from kanister_py.gotemplate.durations import SECOND, format_duration
from kanister_py.ports.clock import Clock

_Timer: TypeAlias = tuple[float, int, Callable[[], None]]

GRACE_SECONDS: Final = 30.0
"""How long a function that is to stop may take for it."""


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


class Attempt:
    """One attempt that is being carried out at this moment."""

    def __init__(self, place: Place, number: int, rules: PhaseRules, is_taken_up: bool) -> None:
        self.place = place
        self.number = number
        self.rules = rules
        self.is_taken_up = is_taken_up
        self.ticket: Ticket | None = None
        self.stop = StopSignal()
        self.is_given_up = False
        self.context: RunningPhase | None = None
        self.leftovers: list[Callable[[], None]] = []
        """Cleanups of what a former process may have left of this attempt."""
        self.cleanups: list[Callable[[], None]] = []


class Attempts:
    """The attempts of one run. The caller holds the lock of the run."""

    def __init__(
        self,
        timers: Timers,
        workers: Workers,
        grace_seconds: float,
        on_given_up: Callable[[Attempt, KanisterError], None],
    ) -> None:
        self._timers = timers
        self._workers = workers
        self._grace_seconds = grace_seconds
        self._on_given_up = on_given_up
        self._under_way: dict[Place, Attempt] = {}
        self.tidying = 0

    def __contains__(self, place: object) -> bool:
        return place in self._under_way

    def __iter__(self) -> Iterator[Attempt]:
        return iter(tuple(self._under_way.values()))

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, attempt: Attempt, *, spent_seconds: float, since: float) -> None:
        """Put an attempt under way, for which time runs `since` then."""
        attempt.ticket = self._workers.current
        self._under_way[attempt.place] = attempt
        if attempt.rules.timeout_seconds is not None:
            left = attempt.rules.timeout_seconds - spent_seconds
            self._timers.set(left, lambda: self._time_out(attempt), since=since)

    def is_under_way(self, attempt: Attempt) -> bool:
        return self._under_way.get(attempt.place) is attempt

    def stop(self, place: Place, why: KanisterError) -> None:
        """Stop an attempt, and go on without it if it does not listen."""
        attempt = self._under_way[place]
        if attempt.stop.why is None:
            self._stop(attempt, why)

    def _time_out(self, attempt: Attempt) -> None:
        if self.is_under_way(attempt) and attempt.stop.why is None:
            nanoseconds = int((attempt.rules.timeout_seconds or 0.0) * SECOND)
            late = f"within its timeout of {format_duration(nanoseconds)}"
            why = UsageError(
                f"Phase {attempt.rules.name} did not end {late}", reason="PhaseTimedOut"
            )
            self._stop(attempt, why)

    def _stop(self, attempt: Attempt, why: KanisterError) -> None:
        self._timers.set(self._grace_seconds, lambda: self._give_up(attempt))
        attempt.stop.set(why)

    def _give_up(self, attempt: Attempt) -> None:
        """Go on without a function that does not listen."""
        if not self.is_under_way(attempt):
            return
        attempt.is_given_up = True
        if attempt.ticket is not None:
            self._workers.give_up(attempt.ticket)
        del self._under_way[attempt.place]
        self._on_given_up(attempt, attempt.stop.why or RunCancelled())

    def end(self, attempt: Attempt) -> None:
        """Let go of an attempt whose function has come back."""
        if not attempt.is_given_up:
            del self._under_way[attempt.place]

    def take_cleanups(self, attempt: Attempt) -> None:
        """Take over what is to be cleaned up; nothing of the run is over before that is done."""
        attempt.cleanups = [*attempt.leftovers]
        if attempt.context is not None:
            attempt.cleanups += attempt.context.take_cleanups()
        self.tidying += bool(attempt.cleanups)
