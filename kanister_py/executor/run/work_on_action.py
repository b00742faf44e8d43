"""Work on one action, in a thread of its own: launching it, its phases, its artifacts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from kanister_py.core.actionsets.outcomes import (
    ArtifactsFailed,
    ArtifactsRendered,
    Launched,
    LaunchFailed,
    Outcome,
    PhaseCompleted,
    PhaseFailed,
    PhaseProgressed,
    PhaseSkipped,
)
from kanister_py.core.actionsets.rules import ExecutionMode
from kanister_py.core.actionsets.status import Moved
from kanister_py.core.actionsets.steps import (
    Begin,
    ContinuePhase,
    Launch,
    RefusePhase,
    RenderArtifacts,
    StartPhase,
    Step,
    WaitForRetry,
)
from kanister_py.core.errors import Fault, KanisterError
from kanister_py.executor.foresee import ActionRefused
from kanister_py.executor.launch_action import ActionWork
from kanister_py.executor.phase_context import RunIdentity, RunningPhase
from kanister_py.executor.run.attempts import Attempt
from kanister_py.executor.run.stepper import Stepper
from kanister_py.executor.run_phase import Completed, Failed, Result, Skipped, run_phase
from kanister_py.ports.tracing import span

_LOG: Final = logging.getLogger(__name__)


class ActionThread:
    """Thread of one action: takes its steps until there is nothing to do for now."""

    def __init__(self, run: Stepper, action: int, owner: Mapping[str, Any] | None) -> None:
        self._run = run
        self._action = action
        self._owner = owner

    def work(self) -> None:
        try:
            while self._work_once():
                pass
        except KanisterError as error:
            self._break_off(error)
        except Exception as error:  # noqa: BLE001 # a thread that dies in silence leaves us waiting
            _LOG.exception("A run fell over")
            self._break_off(Fault(f"A run fell over: {type(error).__name__}: {error}"))

    def _break_off(self, error: KanisterError) -> None:
        with self._run.lock:
            self._run.break_off(error)

    def _work_once(self) -> bool:
        """Do the next thing for the action, and say whether there may be another."""
        attempt: Attempt | None = None
        with self._run.lock:
            step = self._claim()
            if isinstance(step, StartPhase | ContinuePhase):
                attempt = self._run.start(step)
        if attempt is not None:
            result = self._carry_out(attempt)
            with self._run.lock:
                goes_on = self._finish(attempt, result)
            self._tidy(attempt)
            return goes_on
        if isinstance(step, Begin | Launch):
            self._launch()
        elif isinstance(step, RenderArtifacts):
            self._render_artifacts()
        return step is not None

    def _claim(self) -> Step | None:
        """Choose the next step for the action; if there is none, let go of it."""
        run, action = self._run, self._action
        while not run.is_over and not run.is_draining:
            steps = run.next_steps(run.memory.status, action)
            # Of one action there is one; of a sequence it may be another's turn.
            step = steps[0] if steps and _action_of(steps[0]) in (action, None) else None
            if isinstance(step, RefusePhase):
                run.refuse(step.place, step.reason, step.message)
                continue
            if isinstance(step, WaitForRetry):
                run.take(step)
            if isinstance(step, Begin | Launch | StartPhase | ContinuePhase | RenderArtifacts):
                return step
            break
        run.let_go(action)
        is_done = run.memory.status.actions[action].completion_time is not None
        if is_done and run.course.rules.mode is ExecutionMode.SEQUENTIAL:
            run.advance()
        return None

    # Launching

    def _launch(self) -> None:
        run = self._run
        work: ActionWork | KanisterError
        try:
            work = self._found()
        except KanisterError as error:
            work = error
        at, work = self._judged(work)
        with run.lock:
            if run.is_over:
                return
            if isinstance(work, KanisterError):
                failure = run.actions.error_of(work)
                at_fault = work.phase if isinstance(work, ActionRefused) else None
                run.record(LaunchFailed(run.now(), at, failure, at_fault))
                return
            run.record(Launched(run.now(), self._action, work.facts, work.warnings))
            status = run.memory.status
            if status.totals.unlaunched == 0 and len(status.actions) > 1:
                run.advance()

    def _judged(self, work: ActionWork | KanisterError) -> tuple[int, ActionWork | KanisterError]:
        """Look at the other actions, too: where one is refused, and before the first of a sequence.

        Gives the action that is refused and why, or our own and its work.
        """
        run, at = self._run, self._action
        status = run.memory.status
        is_first = status.totals.unlaunched == len(status.actions) > 1
        is_of_sequence = run.course.rules.mode is ExecutionMode.SEQUENTIAL and is_first
        if not isinstance(work, ActionRefused) and (
            isinstance(work, KanisterError) or not is_of_sequence
        ):
            return at, work
        refused = {at: work} if isinstance(work, ActionRefused) else {}
        refusal = run.actions.refusal(refused, status, run.now(), lambda: not run.is_over)
        return refusal or (at, work)

    def _found(self) -> ActionWork:
        run = self._run
        return run.actions.work_of(
            self._action, run.memory.status.actions[self._action], run.now, self._rest
        )

    def _rest(self, _: KanisterError, seconds: float) -> bool:
        """Let time pass, and say whether the action is wanted still."""
        run, clock = self._run, self._run.surroundings.clock
        until = clock.monotonic() + seconds
        with run.surroundings.workers.idle(), run.lock:
            while self._is_wanted_still() and (left := until - clock.monotonic()) > 0:
                clock.wait(run.changed, left)
            return self._is_wanted_still()

    def _is_wanted_still(self) -> bool:
        # A cancel spares what has to be tidied up.
        was_launched = self._run.memory.status.actions[self._action].start_time is not None
        return not self._run.is_over and (was_launched or self._run.is_wanted)

    def _render_artifacts(self) -> None:
        run = self._run
        outcome: Outcome
        try:
            artifacts = self._found().render_artifacts()
            outcome = ArtifactsRendered(run.now(), self._action, artifacts)
        except KanisterError as error:
            failure = run.actions.error_of(error)
            outcome = ArtifactsFailed(run.now(), self._action, failure)
        with run.lock:
            run.record(outcome)

    # Attempts

    def _carry_out(self, attempt: Attempt) -> Result:
        run, place = self._run, attempt.place
        course = run.course.actions[self._action]
        try:
            work = self._found()
        except KanisterError as error:
            return Failed(run.actions.error_of(error))
        identity = RunIdentity(
            run.course.actionset.metadata.uid,
            place,
            course.spec.name,
            course.phase(place.phase).name,
            attempt.number,
        )
        attempt.context = RunningPhase(
            identity,
            run.surroundings,
            attempt.stop,
            masker=work.secrets.masker,
            learn=work.secrets.learn,
            on_progress=lambda percent, moved: self._progress(attempt, percent, moved),
            on_log=self._log_of(identity),
            owner=self._owner,
        )
        phase = work.phases[place.phase]
        with span(
            f"phase {identity.phase}",
            parent=run.span.traceparent,
            action=identity.action,
            phase=identity.phase,
            function=phase.function.name,
            version=run.memory.status.phase_at(place).func_version,
            attempt=attempt.number,
        ) as traced:
            result = run_phase(phase, work.params, attempt.context, is_taken_up=attempt.is_taken_up)
            if isinstance(result, Failed):
                traced.fail(result.error.reason, result.error.message)
        return result

    def _log_of(self, identity: RunIdentity) -> Callable[[str], None] | None:
        onlooker = self._run.memory.onlooker
        if onlooker is None:
            return None
        return lambda line: onlooker.on_log(identity.action, identity.phase, line)

    def _progress(self, attempt: Attempt, percent: int, moved: Moved) -> None:
        run = self._run
        with run.lock:
            if run.attempts.is_under_way(attempt) and not run.is_over:
                run.record(PhaseProgressed(run.now(), attempt.place, percent, moved))

    def _finish(self, attempt: Attempt, result: Result) -> bool:
        """Record what came of an attempt, and say whether its thread may go on."""
        run = self._run
        run.attempts.end(attempt)
        if not attempt.is_given_up and run.is_over:
            return False
        run.attempts.take_cleanups(attempt)
        if attempt.is_given_up:
            # Its end was recorded without it.
            return False
        run.record(self._outcome_of(attempt, result), is_tidy=not attempt.cleanups)
        run.leave_if_drained()
        output = run.memory.status.phase_at(attempt.place).output
        run.actions.leave(attempt.place, output.values if output is not None else None)
        return True

    def _tidy(self, attempt: Attempt) -> None:
        """Clean up after an attempt whose outcome is written down; no lock is held meanwhile.

        Without that, all is left as it is, to be found again.
        """
        if not attempt.cleanups:
            return
        try:
            for clean in attempt.cleanups:
                clean()
        finally:
            with self._run.lock:
                self._run.attempts.tidying -= 1
                self._run.notify()

    def _outcome_of(self, attempt: Attempt, result: Result) -> Outcome:
        now = self._run.now()
        match result:
            case Completed(output):
                return PhaseCompleted(now, attempt.place, output)
            case Skipped():
                return PhaseSkipped(now, attempt.place)
            case Failed(error, output):
                return PhaseFailed(now, attempt.place, error, output)


def _action_of(step: Step) -> int | None:
    match step:
        case Begin():
            return None
        case Launch(action) | RenderArtifacts(action):
            return action
        case _:
            return step.place.action
