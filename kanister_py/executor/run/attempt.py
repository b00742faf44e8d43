"""Attempt of a phase: one call of its function, with its time limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kanister_py.core.actionsets.outcomes import PhaseProgressed
from kanister_py.core.actionsets.status import Moved
from kanister_py.core.actionsets.steps import ContinuePhase, StartPhase
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.executor.phase_context import RunIdentity, RunningPhase, StopSignal, Surroundings
from kanister_py.executor.run.orphaned_pods import delete_pods_of_attempts
from kanister_py.executor.run.prepared_action import ActionWork, SecretBook
from kanister_py.executor.run.state import RunState
from kanister_py.executor.run_phase import Failed, Result, run_phase
from kanister_py.gotemplate.durations import SECOND, format_duration
from kanister_py.ports.tracing import span


class Attempt:
    """One active attempt of a phase in this process.

    `call` runs without the run's lock; callers of the other methods must hold it.
    """

    def __init__(
        self,
        step: StartPhase | ContinuePhase,
        state: RunState,
        surroundings: Surroundings,
        on_given_up: Callable[[KanisterError], None],
    ) -> None:
        place = step.place
        action = state.course.actions[place.action]
        self.place: Final = place
        self.is_resumed: Final = isinstance(step, ContinuePhase)
        """Whether another process began this attempt."""
        self.identity: Final = RunIdentity(
            state.course.actionset.metadata.uid,
            place,
            action.spec.name,
            action.phase(place.phase).name,
            step.attempt,
        )
        self.is_under_way = True
        self.is_given_up = False
        self._rules = state.course.rules.actions[place.action].phase(place.phase)
        self._state = state
        self._surroundings = surroundings
        self._on_given_up = on_given_up
        self._signal = StopSignal()
        self._ticket = surroundings.workers.current
        self._context: RunningPhase | None = None
        self._cleanups: list[Callable[[], None]] = []

    # Time limits

    def begin(self, *, spent_seconds: float, since: float) -> None:
        """Start the timeout, of which `spent_seconds` had passed at the monotonic time `since`."""
        self._state.attempts += 1
        if self._rules.timeout_seconds is not None:
            left = self._rules.timeout_seconds - spent_seconds
            self._state.timers.set(left, self._time_out, since=since)

    @property
    def stopped_by(self) -> KanisterError | None:
        """The reason for which the function must stop; None if there is none."""
        return self._signal.why

    def stop(self, why: KanisterError) -> None:
        """Request the function to stop. If it does not, the run continues without it."""
        if self._signal.why is None:
            self._state.timers.set(self._surroundings.grace_seconds, self._give_up)
            self._signal.set(why)

    def _time_out(self) -> None:
        if self.is_under_way and self._signal.why is None:
            nanoseconds = int((self._rules.timeout_seconds or 0.0) * SECOND)
            late = f"within its timeout of {format_duration(nanoseconds)}"
            message = f"Phase {self._rules.name} did not end {late}"
            self.stop(UsageError(message, reason="PhaseTimedOut"))

    def _give_up(self) -> None:
        if not self.is_under_way:
            return
        self.is_given_up = True
        if self._ticket is not None:
            self._surroundings.workers.give_up(self._ticket)
        self.end()
        assert self._signal.why is not None
        self._on_given_up(self._signal.why)

    def end(self) -> None:
        """Record that the function has returned or was given up."""
        if self.is_under_way:
            self.is_under_way = False
            self._state.attempts -= 1

    # Call

    def call(self, work: ActionWork, secrets: SecretBook) -> Result:
        """Call the function, and return its result. Raises nothing."""
        identity, observer = self.identity, self._state.observer
        context = RunningPhase(
            identity,
            self._surroundings,
            self._signal,
            masker=secrets.masker,
            learn=secrets.learn,
            on_progress=self._progress,
            on_log=partial(observer.on_log, identity.action, identity.phase) if observer else None,
        )
        self._context = context
        phase = work.phases[self.place.phase]
        with span(
            f"phase {identity.phase}",
            parent=self._state.span.traceparent,
            action=identity.action,
            phase=identity.phase,
            function=phase.function.name,
            version=self._state.status.phase_at(self.place).func_version,
            attempt=identity.attempt,
        ) as traced:
            result = run_phase(phase, work.params, context, is_resumed=self.is_resumed)
            if isinstance(result, Failed):
                traced.fail(result.error.reason, result.error.message)
        return result

    def _progress(self, percent: int, moved: Moved) -> None:
        state = self._state
        with state.lock:
            if self.is_under_way and not state.is_over:
                state.record(PhaseProgressed(state.now(), self.place, percent, moved))

    # Cleanup

    def clean_up_later(self, clean: Callable[[], None]) -> None:
        """Register a cleanup to run once the outcome is recorded, before those of the function."""
        self._cleanups.append(clean)

    def delete_pods(self) -> None:
        """Delete the pods with this run key, including pods of other processes."""
        course, place = self._state.course, self.place
        metadata = course.actionset.metadata
        target = course.actions[place.action].spec.object.namespace
        namespaces = sorted({metadata.namespace, target or metadata.namespace})
        owner = f"{metadata.namespace}/{metadata.name}"
        delete_pods_of_attempts(
            self._surroundings.cluster,
            [self.identity.key()],
            namespaces,
            owner,
            self._surroundings.refused,
            is_confined=self._surroundings.confinement is not None,
        )

    def take_cleanups(self) -> list[Callable[[], None]]:
        """Return and forget the cleanups to run once the outcome of the attempt is recorded."""
        cleanups, self._cleanups = self._cleanups, []
        return cleanups + (self._context.take_cleanups() if self._context is not None else [])
