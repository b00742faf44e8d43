"""Worker of an action: executes the steps of one action of a run in order."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from kanister_py.core.actionsets.outcomes import (
    ArtifactsFailed,
    ArtifactsRendered,
    Launched,
    LaunchFailed,
    Outcome,
    PhaseCompleted,
    PhaseFailed,
    PhaseSkipped,
    PhaseStarted,
)
from kanister_py.core.actionsets.rules import ExecutionMode
from kanister_py.core.actionsets.status import (
    DEFER,
    FINAL,
    PhaseError,
    Place,
    Status,
)
from kanister_py.core.actionsets.steps import (
    Begin,
    ContinuePhase,
    Launch,
    RefusePhase,
    RenderArtifacts,
    StartPhase,
    Step,
    StopPhase,
    WaitForRetry,
    next_steps,
)
from kanister_py.core.errors import Fault, KanisterError, RunTimedOut
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.preflight import ActionRefused
from kanister_py.executor.run.attempt import Attempt
from kanister_py.executor.run.prepared_action import ActionWork, PreparedActions
from kanister_py.executor.run.state import RunState
from kanister_py.executor.run_phase import Completed, Failed, Result, Skipped, phase_error_of

_LOG: Final = logging.getLogger(__name__)


class ActionWorker:
    """Worker of one action: its thread, its active attempt, and the wait before the next one.

    `next_steps` chooses the steps. Steps that take time run in a thread, which continues with
    the next step until there is none. Callers of public methods must hold the run's lock.
    """

    def __init__(
        self,
        index: int,
        actions: PreparedActions,
        state: RunState,
        surroundings: Surroundings,
        on_turn: Callable[[], None],
    ) -> None:
        self._index = index
        self._actions = actions
        self._action = actions[index]
        self._state = state
        self._surroundings = surroundings
        self._on_turn = on_turn
        """Called, with the lock held, when other actions may take a step."""
        self._attempt: Attempt | None = None
        self._next_attempt: tuple[Place, float] | None = None
        """The phase that waits for its next attempt, and the monotonic time of that attempt."""
        self._has_thread = False
        self._is_queued = False
        """Whether its thread is still queued for a slot."""

    @property
    def is_at_work(self) -> bool:
        return self._attempt is not None

    @property
    def is_untouchable(self) -> bool:
        """Whether a phase is running that no other process could continue."""
        attempt = self._attempt
        return attempt is not None and self._action.is_untouchable(attempt.place.phase)

    # Steps

    def advance(self) -> None:
        """Take every step that the status allows."""
        while not self._state.is_over:
            step = self._next_step(self._state.status)
            if step is None or not self._take(step):
                return

    def _next_step(self, status: Status) -> Step | None:
        state, attempt, retry = self._state, self._attempt, self._next_attempt
        passed = self._surroundings.clock.monotonic()
        steps = next_steps(
            state.course.rules,
            status,
            state.now(),
            in_progress=() if attempt is None else (attempt.place,),
            elapsed={} if retry is None else {retry[0]: retry[1] <= passed},
            action=self._index,
        )
        # In a sequence, the next step may belong to another action.
        return steps[0] if steps and _action_of(steps[0]) in (self._index, None) else None

    def _take(self, step: Step) -> bool:
        """Take a step; returns whether it changed the status."""
        match step:
            case RefusePhase(place, reason, message):
                # A running thread checks this itself; a queued one may start too late.
                thread_decides = self._has_thread and not self._is_queued
                return not thread_decides and self._refuse(place, reason, message)
            case StopPhase():
                assert self._attempt is not None
                self._attempt.stop(self._state.why_cancelled)
            case WaitForRetry(place, until):
                self._wait_until(place, until)
            case Launch() | RenderArtifacts() | StartPhase() | ContinuePhase():
                self.start_thread()
            case Begin():
                # The run chooses the versions of all actions at once.
                pass
        return False

    def _refuse(self, place: Place, reason: str, message: str) -> bool:
        """Record the failure of a phase that never started."""
        is_late = reason == RunTimedOut.reason
        what = "The run timed out" if is_late else "The run was cancelled"
        error = PhaseError(message or f"{what} before the phase started", reason)
        return self._state.record(PhaseFailed(self._state.now(), place, error))

    def _wait_until(self, place: Place, until: datetime) -> None:
        """Wait for the next attempt, measured by the monotonic clock."""
        if self._next_attempt is None or self._next_attempt[0] != place:
            seconds = (until - self._state.now()).total_seconds()
            self._next_attempt = place, self._state.timers.set(seconds, self.advance)

    # Thread

    def start_thread(self) -> None:
        """Start a thread for the next steps of the action, unless there is one."""
        if not self._has_thread and not self._state.is_draining:
            self._has_thread = self._is_queued = True
            self._surroundings.workers.submit(self._work)

    def _work(self) -> None:
        with self._state.lock:
            self._is_queued = False
        try:
            while self._work_once():
                pass
        except Exception as error:  # noqa: BLE001 # otherwise the run would wait forever
            if isinstance(error, KanisterError):
                why = error
            else:
                _LOG.exception("A run failed unexpectedly")
                why = Fault(f"A run failed unexpectedly: {type(error).__name__}: {error}")
            with self._state.lock:
                self._state.break_off(why)

    def _work_once(self) -> bool:
        """Take the next step; returns whether there may be another."""
        attempt: Attempt | None = None
        with self._state.lock:
            step = self._claim()
            if isinstance(step, StartPhase | ContinuePhase):
                attempt = self._start(step)
        if attempt is not None:
            return self._finish(attempt, self._call_function(attempt))
        if isinstance(step, Begin | Launch):
            self._launch()
        elif isinstance(step, RenderArtifacts):
            self._render_artifacts()
        return step is not None

    def _claim(self) -> Step | None:
        """Choose the next step of the thread; without a step the thread ends."""
        state = self._state
        while not state.is_over and not state.is_draining:
            step = self._next_step(state.status)
            if isinstance(step, RefusePhase):
                self._refuse(step.place, step.reason, step.message)
                continue
            if isinstance(step, WaitForRetry):
                self._take(step)
            if isinstance(step, Begin | Launch | StartPhase | ContinuePhase | RenderArtifacts):
                return step
            break
        self._has_thread = False
        is_done = state.status.actions[self._index].completion_time is not None
        if is_done and state.course.rules.mode is ExecutionMode.SEQUENTIAL:
            self._on_turn()
        return None

    # Launching

    def _launch(self) -> None:
        state = self._state
        work: ActionWork | KanisterError
        try:
            work = self._find_work()
        except KanisterError as error:
            work = error
        index, work = self._checked_with_others(work)
        with state.lock:
            if state.is_over:
                return
            if isinstance(work, KanisterError):
                failure = self._actions.error_of(work)
                at_fault = work.phase if isinstance(work, ActionRefused) else None
                state.record(LaunchFailed(state.now(), index, failure, at_fault))
                return
            state.record(Launched(state.now(), index, work.facts, work.warnings))
            if state.status.totals.unlaunched == 0 and len(state.status.actions) > 1:
                self._on_turn()

    def _checked_with_others(
        self, work: ActionWork | KanisterError
    ) -> tuple[int, ActionWork | KanisterError]:
        """Check the other actions as well, if this one is refused or is the first of a sequence.

        Returns the index and the error of a refused action, or the index and the work of this one.
        """
        state = self._state
        status = state.status
        is_first = status.totals.unlaunched == len(status.actions) > 1
        is_of_sequence = state.course.rules.mode is ExecutionMode.SEQUENTIAL and is_first
        if not isinstance(work, ActionRefused) and (
            isinstance(work, KanisterError) or not is_of_sequence
        ):
            return self._index, work
        refused = {self._index: work} if isinstance(work, ActionRefused) else {}
        refusal = self._actions.find_refusal(
            refused, status, state.now(), lambda: not state.is_over
        )
        return refusal or (self._index, work)

    def _find_work(self) -> ActionWork:
        state = self._state
        return self._action.find_work(
            state.status.actions[self._index], state.now, self._wait_before_retry
        )

    def _wait_before_retry(self, _: KanisterError, seconds: float) -> bool:
        """Wait without occupying a slot; return whether the action is still wanted."""
        state, clock = self._state, self._surroundings.clock
        until = clock.monotonic() + seconds
        with self._surroundings.workers.idle(), state.lock:
            while self._is_wanted and (left := until - clock.monotonic()) > 0:
                clock.wait(state.changed, left)
            return self._is_wanted

    @property
    def _is_wanted(self) -> bool:
        # A cancelled run still cleans up after actions that were launched.
        was_launched = self._state.status.actions[self._index].start_time is not None
        return not self._state.is_over and (was_launched or self._state.is_wanted)

    def _render_artifacts(self) -> None:
        state = self._state
        outcome: Outcome
        try:
            artifacts = self._action.render_artifacts(self._find_work())
            outcome = ArtifactsRendered(state.now(), self._index, artifacts)
        except KanisterError as error:
            outcome = ArtifactsFailed(state.now(), self._index, self._actions.error_of(error))
        with state.lock:
            state.record(outcome)

    # Attempts

    def _start(self, step: StartPhase | ContinuePhase) -> Attempt:
        """Record the start of an attempt."""
        state, place = self._state, step.place
        # Recording takes time, and the system clock may be changed.
        now, began = state.now(), self._surroundings.clock.monotonic()
        if isinstance(step, StartPhase):
            # After a power loss, an attempt that cannot be repeated must not start again.
            must_last = self._action.is_untouchable(place.phase)
            state.record(PhaseStarted(now, place, step.attempt), must_last=must_last)
            self._next_attempt = None
        started = state.status.phase_at(place).start_time or now
        attempt = Attempt(step, state, self._surroundings, self._continue_without)
        self._attempt = attempt
        attempt.begin(spent_seconds=(now - started).total_seconds(), since=began)
        if attempt.is_resumed and state.is_cancelled and place.phase != DEFER:
            # The run was cancelled before this process started, so no event would stop the phase.
            attempt.stop(state.why_cancelled)
        return attempt

    def _call_function(self, attempt: Attempt) -> Result:
        """Call the function, and return the result of the attempt. The lock is not held."""
        result: Result
        if attempt.is_resumed and attempt.stopped_by is not None:
            # Calling the function again could start work that is to be stopped.
            result = Failed(self._actions.error_of(attempt.stopped_by))
        else:
            try:
                result = attempt.call(self._find_work(), self._action.secrets)
            except KanisterError as error:
                result = Failed(self._actions.error_of(error))
        if attempt.is_resumed and isinstance(result, Failed):
            # The function may have failed before it found the pods of the previous process.
            attempt.clean_up_later(attempt.delete_pods)
        return result

    def _finish(self, attempt: Attempt, result: Result) -> bool:
        """Record the outcome of an attempt and clean up; return whether the thread continues."""
        state = self._state
        with state.lock:
            attempt.end()
            if attempt is self._attempt:
                self._attempt = None
            if not attempt.is_given_up and state.is_over:
                # Record nothing and clean up nothing: a later process resumes the attempt.
                return False
            cleanups = attempt.take_cleanups()
            if cleanups:
                state.begin_cleanup()
            # The end of an attempt that was given up is already recorded.
            if not attempt.is_given_up:
                self._record_result(attempt.place, result, is_clean=not cleanups)
        if cleanups:
            try:
                for clean in cleanups:
                    clean()
            finally:
                with state.lock:
                    state.end_cleanup()
        return not attempt.is_given_up

    def _record_result(self, place: Place, result: Result, *, is_clean: bool) -> None:
        """Record a result. `is_clean` means that no cleanup waits for the record.

        The journal may then skip it if the record of the next phase follows immediately.
        """
        state = self._state
        now = state.now()
        outcome: Outcome
        is_followed: Callable[[Status], bool] | None = None
        match result:
            case Completed(output):
                outcome = PhaseCompleted(now, place, output)
            case Skipped():
                outcome = PhaseSkipped(now, place)
            case Failed(error, output):
                outcome = PhaseFailed(now, place, error, output)
        if is_clean and not state.is_draining and not isinstance(result, Failed):
            is_followed = self._starts_next
        state.record(outcome, is_followed=is_followed)
        state.abort_if_drained()
        recorded = state.status.phase_at(place).output
        self._action.leave_phase(place.phase, recorded.values if recorded is not None else None)

    def _starts_next(self, status: Status) -> bool:
        """Return whether the thread starts the next phase immediately after this status."""
        return status.state not in FINAL and isinstance(self._next_step(status), StartPhase)

    def _continue_without(self, why: KanisterError) -> None:
        """Record the end of an attempt whose function does not stop."""
        attempt, self._attempt = self._attempt, None
        assert attempt is not None
        self._has_thread = False
        self._state.record(PhaseFailed(self._state.now(), attempt.place, phase_error_of(why)))
        self.advance()


def _action_of(step: Step) -> int | None:
    match step:
        case Begin():
            return None
        case Launch(action) | RenderArtifacts(action):
            return action
        case _:
            return step.place.action
