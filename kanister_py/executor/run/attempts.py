"""Attempts at phases: those under way in this process, and how they end before their time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kanister_py.core.actionsets.rules import PhaseRules
from kanister_py.core.actionsets.status import Place
from kanister_py.core.errors import KanisterError, RunCancelled, UsageError
from kanister_py.core.objects.durations import SECOND, format_duration
from kanister_py.executor.phase_context import RunningPhase
from kanister_py.executor.run.timers import Timers
from kanister_py.executor.stop_signal import StopSignal
from kanister_py.executor.working import Ticket, Workers

GRACE_SECONDS: Final = 30.0
"""How long a function that was told to stop may take for it."""


@dataclass(slots=True, eq=False, repr=False)
class Attempt:
    """One attempt that is being carried out at this moment."""

    place: Place
    number: int
    rules: PhaseRules
    is_taken_up: bool
    ticket: Ticket | None
    stop: StopSignal = field(default_factory=StopSignal)
    is_given_up: bool = False
    context: RunningPhase | None = None
    cleanups: list[Callable[[], None]] = field(default_factory=list)


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

    def begin(
        self,
        place: Place,
        number: int,
        rules: PhaseRules,
        *,
        is_taken_up: bool,
        spent_seconds: float,
        since: float,
    ) -> Attempt:
        """Put an attempt under way, for which time runs `since` then."""
        attempt = Attempt(place, number, rules, is_taken_up, self._workers.current)
        self._under_way[place] = attempt
        if rules.timeout_seconds is not None:
            left = rules.timeout_seconds - spent_seconds
            self._timers.set(left, lambda: self._time_out(attempt), since=since)
        return attempt

    def is_under_way(self, attempt: Attempt) -> bool:
        return self._under_way.get(attempt.place) is attempt

    def stop(self, place: Place, why: KanisterError) -> None:
        """Tell an attempt to stop, and go on without it if it does not listen."""
        attempt = self._under_way[place]
        if attempt.stop.why is None:
            self._tell_to_stop(attempt, why)

    def _time_out(self, attempt: Attempt) -> None:
        if self.is_under_way(attempt) and attempt.stop.why is None:
            nanoseconds = int((attempt.rules.timeout_seconds or 0.0) * SECOND)
            late = f"within its timeout of {format_duration(nanoseconds)}"
            why = UsageError(
                f"Phase {attempt.rules.name} did not end {late}", reason="PhaseTimedOut"
            )
            self._tell_to_stop(attempt, why)

    def _tell_to_stop(self, attempt: Attempt, why: KanisterError) -> None:
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
        if attempt.context is not None:
            attempt.cleanups = attempt.context.take_cleanups()
            self.tidying += bool(attempt.cleanups)
