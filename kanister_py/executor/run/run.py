"""A run of an ActionSet: executes it from its current status to its end."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from kanister_py.core.actionsets.course import Course, first_status
from kanister_py.core.actionsets.outcomes import (
    Abandoned,
    Begun,
    CancelAsked,
    Outcome,
    Resumed,
    Suspended,
)
from kanister_py.core.actionsets.status import FINAL, State, Status, Warned
from kanister_py.core.actionsets.steps import next_steps
from kanister_py.core.errors import KanisterError, RunCancelled
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.run.action_worker import ActionWorker
from kanister_py.executor.run.prepared_action import PreparedActions
from kanister_py.executor.run.state import Host, RunObserver, RunState
from kanister_py.executor.run_phase import phase_error_of
from kanister_py.ports.journal import Journal
from kanister_py.ports.tracing import begin_span, trace_id_of


class RunningPhases(NamedTuple):
    """Number of running phases, and how many of them no other process could continue."""

    phases: int = 0
    untouchable: int = 0


class ActionSetRun:
    """One active ActionSet in this process.

    `next_steps` chooses the steps, one worker per action executes them, and every outcome is
    recorded in the journal before the run continues. The run requests calls of `process_timers`
    from its host. All methods are thread-safe.
    """

    def __init__(
        self,
        course: Course,
        functions: FunctionSource,
        surroundings: Surroundings,
        *,
        journal: Journal | None = None,
        status: Status | None = None,
        observer: RunObserver | None = None,
    ) -> None:
        status = status if status is not None else first_status(course)
        self._course = course
        self._actions = PreparedActions(course, functions, surroundings)
        self._state = RunState(course, status, surroundings.clock, journal, observer)
        self._workers = [
            ActionWorker(index, self._actions, self._state, surroundings, self._advance)
            for index in range(len(course.actions))
        ]

    @property
    def status(self) -> Status:
        return self._state.status

    def mask(self, data: Any) -> Any:
        """Mask all secrets that the run has read in plain data."""
        return self._actions.mask(data)

    @property
    def trace_id(self) -> str:
        """The ID of its trace in the format of W3C Trace Context; empty without a trace."""
        return trace_id_of(self._state.span.traceparent)

    @property
    def error(self) -> KanisterError | None:
        """The error that stopped the run, if any."""
        return self._state.error

    @property
    def is_wanted(self) -> bool:
        """Whether the run continues, and no cancellation was requested."""
        return self._state.is_wanted

    @property
    def is_done(self) -> bool:
        """Whether this process has nothing more to do for the run. Does not wait for the lock."""
        return self._state.is_over and not self._state.is_cleaning_up

    @property
    def is_at_work(self) -> bool:
        """Whether a function of the run is executing in this process, even if the run is over."""
        return self._state.attempts > 0

    @property
    def at_work(self) -> RunningPhases:
        """The number of currently running phases."""
        with self._state.lock:
            if self._state.is_over:
                return RunningPhases()
            return RunningPhases(
                sum(worker.is_at_work for worker in self._workers),
                sum(worker.is_untouchable for worker in self._workers),
            )

    def locked(self, timeout_seconds: float) -> AbstractContextManager[bool]:
        """Prevent changes of the run during a block. Yields False if the lock was not acquired.

        A run holds its lock while it writes to its journal, which takes long if writes to the
        cluster fail. The caller should try again later.
        """
        return self._state.try_lock(timeout_seconds)

    # Host

    def begin(self, host: Host) -> None:
        """Start the run; from here on the host is woken when there is something to do.

        If the run cannot start, `error` is the reason.
        """
        state = self._state
        with state.lock:
            metadata = self._course.actionset.metadata
            span = begin_span(
                f"run {metadata.name}",
                actionset=metadata.name,
                namespace=metadata.namespace,
                uid=metadata.uid,
            )
            state.begin(host, span)
            try:
                self._follow_spec()
                self._advance()
                if state.status.state in FINAL:
                    state.notify()
            except KanisterError as error:
                state.break_off(error)

    def _follow_spec(self) -> None:
        """Record the cancellation, suspension or resumption that the ActionSet's spec requests."""
        state, spec = self._state, self._course.actionset.spec
        if state.status.state in FINAL:
            return
        if spec.cancel:
            state.record(CancelAsked(state.now()))
        if spec.suspend:
            state.record(Suspended(state.now()))
        elif state.status.conditions:
            state.record(Resumed(state.now()))

    def process_timers(self) -> None:
        """Process all timers that are due."""
        state = self._state
        with state.lock:
            try:
                state.timers.act(lambda: not state.is_over)
            except KanisterError as error:
                state.break_off(error)

    # Steps

    def _advance(self) -> None:
        """Take all steps that the status allows."""
        self._begin_actions()
        for worker in self._workers:
            worker.advance()

    def _begin_actions(self) -> None:
        """Choose the versions of all actions, if the run has not started."""
        state = self._state
        if state.is_over or state.status.state is not State.PENDING:
            return
        if not next_steps(self._course.rules, state.status, state.now()):
            # The run is suspended.
            return
        versions: list[tuple[str, ...]] = []
        warnings: list[Warned] = []
        for action, worker in zip(self._actions, self._workers, strict=True):
            chosen = action.choose_versions()
            if len(chosen.versions) < len(chosen.choices):
                # The thread of the action finds its other problems.
                worker.start_thread()
                return
            versions.append(chosen.versions)
            warnings += chosen.warnings
        begun = Begun(state.now(), tuple(versions), tuple(warnings))
        # After a power loss, the run must continue with the same versions.
        state.record(begun, must_last=True)

    # Requests

    def cancel(self, reason: str = RunCancelled.reason, message: str = "") -> None:
        """Request cancellation: running phases are stopped, deferred phases still run."""
        self._request(CancelAsked(self._state.now(), reason, message))

    def suspend(self) -> None:
        """Start no new phase until `resume`."""
        self._request(Suspended(self._state.now()))

    def resume(self) -> None:
        """Start phases again."""
        self._request(Resumed(self._state.now()))

    def _request(self, outcome: Outcome) -> None:
        state = self._state
        with state.lock:
            if state.is_over:
                return
            state.record(outcome)
            self._advance()
            # Threads that wait before a retry check whether the run is still wanted.
            state.changed.notify_all()

    def abort(self) -> None:
        """End immediately, and leave the run for a later process."""
        with self._state.lock:
            self._state.abort()

    def drain(self) -> None:
        """Start nothing new. The run is aborted once no function is running."""
        with self._state.lock:
            self._state.is_draining = True
            self._state.abort_if_drained()

    def abandon(self, why: KanisterError) -> bool:
        """End now: running phases are recorded as failed, without stopping them or cleaning up.

        The status is final then, even if it cannot be written; returns whether it was written.
        """
        state = self._state
        with state.lock:
            if state.status.is_final:
                return True
            return state.record_end(Abandoned(state.now(), phase_error_of(why)))
