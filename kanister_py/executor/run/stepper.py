"""Steps of a run, as the table of states allows them: taken at once, or by an action's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from threading import Condition, RLock
from typing import Any, Final, Protocol

from kanister_py.core.actionsets.course import Course
from kanister_py.core.actionsets.outcomes import (
    ArtifactsFailed,
    ArtifactsRendered,
    Begun,
    CancelAsked,
    Launched,
    LaunchFailed,
    Outcome,
    PhaseCompleted,
    PhaseFailed,
    PhaseProgressed,
    PhaseSkipped,
    PhaseStarted,
    Resumed,
    Suspended,
)
from kanister_py.core.actionsets.rules import ExecutionMode
from kanister_py.core.actionsets.status import (
    CANCEL_ASKED,
    DEFER,
    FINAL,
    Moved,
    PhaseError,
    Place,
    Status,
    Warned,
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
from kanister_py.core.errors import (
    Fault,
    JournalUnwritable,
    KanisterError,
    RunCancelled,
    RunTimedOut,
)
from kanister_py.executor.foresee import ActionRefused
from kanister_py.executor.launch_action import ActionWork
from kanister_py.executor.phase_context import RunIdentity, RunningPhase, Surroundings
from kanister_py.executor.run.actions import Actions
from kanister_py.executor.run.attempts import Attempt, Attempts, Timers
from kanister_py.executor.run.left_behind import delete_pods_of_attempts
from kanister_py.executor.run.memory import Memory
from kanister_py.executor.run_phase import (
    Completed,
    Failed,
    Result,
    Skipped,
    phase_error_of,
    run_phase,
)
from kanister_py.ports.tracing import NO_SPAN, Span, span

_LOG: Final = logging.getLogger(__name__)


class Host(Protocol):
    """Host of a run, which has no thread of its own. Calls must be quick."""

    def wake_in(self, seconds: float) -> None:
        """Have the run's `ring` called after so many seconds; other times count besides."""

    def on_over(self) -> None:
        """Called once, when the run has come to its end, or cannot go on."""


class Stepper:
    """Steps of one run, taken one by one. The caller holds `lock`."""

    def __init__(
        self,
        course: Course,
        surroundings: Surroundings,
        memory: Memory,
        actions: Actions,
        grace_seconds: float,
        owner: Mapping[str, Any] | None,
    ) -> None:
        self.course: Final = course
        self.surroundings: Final = surroundings
        self.memory: Final = memory
        self.actions: Final = actions
        self.owner: Final = owner
        self.now: Final = surroundings.clock.now
        self.lock: Final = RLock()
        self.changed: Final = Condition(self.lock)
        self.timers: Final = Timers(surroundings.clock, self._wake_in)
        self.attempts: Final = Attempts(
            self.timers, surroundings.workers, grace_seconds, self._go_on_without
        )
        self.error: KanisterError | None = None
        self.host: Host | None = None
        self.span: Span = NO_SPAN
        self.is_aborted = False
        self.is_draining = False
        self._busy: set[int] = set()
        self._queued: set[int] = set()
        """Those of the busy actions whose thread still waits for a worker."""
        self._rests: dict[Place, float] = {}

    @property
    def is_over(self) -> bool:
        return self.memory.status.state in FINAL or self.is_aborted or self.error is not None

    @property
    def is_tidying(self) -> bool:
        return self.attempts.tidying > 0 and not self.is_aborted and self.error is None

    @property
    def is_wanted(self) -> bool:
        """Whether no early end has been asked for."""
        return not self.is_over and self.memory.status.condition(CANCEL_ASKED) is None

    # The host and the threads that wait

    def notify(self) -> None:
        """Let the host and the threads that wait know that the run has changed."""
        self.changed.notify_all()
        if self.host is not None and self.is_over and not self.is_tidying:
            host, self.host = self.host, None
            self._end_span()
            host.on_over()

    def _end_span(self) -> None:
        status = self.memory.status
        self.span.note(state=str(status.state))
        failure = self.error or status.error
        if failure is not None:
            self.span.fail(failure.reason, failure.message)
        self.span.end()

    def break_off(self, error: KanisterError) -> None:
        """Leave everything as it is: the run cannot go on."""
        self.error = self.error or error
        self.notify()

    def _wake_in(self, seconds: float) -> None:
        if self.host is not None:
            self.host.wake_in(seconds)

    # Steps

    def follow_spec(self) -> None:
        """Heed what the ActionSet itself says of cancelling and suspending."""
        if self.memory.status.state in FINAL:
            return
        spec = self.course.actionset.spec
        if spec.cancel:
            self.record(CancelAsked(self.now()))
        if spec.suspend:
            self.record(Suspended(self.now()))
        elif self.memory.status.conditions:
            self.record(Resumed(self.now()))

    def advance(self, action: int | None = None) -> None:
        """Take every step that the table allows."""
        while self._advance_once(action):
            pass

    def _advance_once(self, action: int | None) -> bool:
        """Take the steps of this moment, and say whether there may be others after them."""
        is_changed = False
        for step in self.next_steps(self.memory.status, action):
            if self.is_over:
                return False
            is_changed = self.take(step) or is_changed
        return is_changed

    def next_steps(self, status: Status, action: int | None) -> list[Step]:
        rests, passed = self._rests, self.surroundings.clock.monotonic()
        return next_steps(
            self.course.rules,
            status,
            self.now(),
            working=self.attempts,
            rested={place: due <= passed for place, due in rests.items()} if rests else {},
            action=action,
        )

    def take(self, step: Step) -> bool:
        """Take one step, and say whether the status is another one for it."""
        match step:
            case Begin():
                return self._begin()
            case RefusePhase(place, reason, message):
                # A thread that works on this action refuses it, too; one to come may come late.
                is_looked_at = place.action in self._busy - self._queued
                return not is_looked_at and self.refuse(place, reason, message)
            case StopPhase(place):
                self.attempts.stop(place, self._why_stopped())
            case WaitForRetry(place, until):
                self._rest_until(place, until)
            case Launch(action) | RenderArtifacts(action):
                self._set_to_work(action)
            case StartPhase(place) | ContinuePhase(place):
                self._set_to_work(place.action)
        return False

    def _begin(self) -> bool:
        versions: list[tuple[str, ...]] = []
        warnings: list[Warned] = []
        for index in range(len(self.course.actions)):
            chosen = self.actions.choose_versions(index)
            if len(chosen.versions) < len(chosen.choices):
                # Its thread finds out what else is wrong with it.
                self._set_to_work(index)
                return False
            versions.append(chosen.versions)
            warnings += chosen.warnings
        return self.record(Begun(self.now(), tuple(versions), tuple(warnings)))

    def refuse(self, place: Place, reason: str, message: str) -> bool:
        """Let a phase fail that never started."""
        is_late = reason == RunTimedOut.reason
        what = "The run's time was over" if is_late else "The run was cancelled"
        error = PhaseError(message or f"{what} before its turn came", reason)
        return self.record(PhaseFailed(self.now(), place, error))

    def _rest_until(self, place: Place, until: datetime) -> None:
        """Let a phase wait for its next try; from here on the time that passes counts."""
        if place not in self._rests:
            seconds = (until - self.now()).total_seconds()
            self._rests[place] = self.timers.set(seconds, lambda: self.advance(place.action))

    def _set_to_work(self, action: int) -> None:
        if action not in self._busy and not self.is_draining:
            self._busy.add(action)
            self._queued.add(action)
            self.surroundings.workers.submit(partial(self._work, action))

    def _work(self, action: int) -> None:
        with self.lock:
            self._queued.discard(action)
        _ActionThread(self, action).work()

    def let_go(self, action: int) -> None:
        """Note that no thread works on an action any more."""
        self._busy.discard(action)

    def start(self, step: StartPhase | ContinuePhase) -> Attempt:
        """Record that an attempt starts. From here on it is under way."""
        place = step.place
        # Writing the start takes its time, in which the clock may be set.
        now, began = self.now(), self.surroundings.clock.monotonic()
        if isinstance(step, StartPhase):
            self.record(PhaseStarted(now, place, step.attempt))
            self._rests.pop(place, None)
        started = self.memory.status.phase_at(place).start_time or now
        rules = self.course.rules.actions[place.action].phase(place.phase)
        attempt = Attempt(place, step.attempt, rules, isinstance(step, ContinuePhase))
        spent_seconds = (now - started).total_seconds()
        self.attempts.begin(attempt, spent_seconds=spent_seconds, since=began)
        is_cancelled = self.memory.status.condition(CANCEL_ASKED) is not None
        if attempt.is_taken_up and is_cancelled and place.phase != DEFER:
            # The cancellation is older than this process: no later event would stop the phase.
            self.attempts.stop(place, self._why_stopped())
        return attempt

    def _why_stopped(self) -> KanisterError:
        condition = self.memory.status.condition(CANCEL_ASKED)
        return _STOPS.get(condition.reason if condition is not None else "", RunCancelled)()

    def _go_on_without(self, attempt: Attempt, why: KanisterError) -> None:
        """Record the end of an attempt whose function does not stop."""
        self.let_go(attempt.place.action)
        self.record(PhaseFailed(self.now(), attempt.place, phase_error_of(why)))
        self.advance(attempt.place.action)

    def leave_if_drained(self) -> None:
        """Abort a run that is to begin nothing new, once nothing of it is at work."""
        if self.is_draining and not self.attempts and not self.is_over:
            try:
                self.memory.catch_up()
            except KanisterError as error:
                self.break_off(error)
            self.is_aborted = True
            self.notify()

    # Memory

    def record(self, outcome: Outcome, *, is_tidy: bool = False) -> bool:
        """Write an outcome down and let it count; say whether it changed anything.

        `is_tidy` says that nothing waits for it to be written but the next step.
        """
        must_last = isinstance(outcome, Begun) or (
            isinstance(outcome, PhaseStarted) and self.actions.is_untouchable(outcome.place)
        )
        followed = self._starter_after(outcome) if is_tidy and not self.is_draining else None
        try:
            is_news = self.memory.record(outcome, must_last=must_last, is_followed=followed)
        except JournalUnwritable as error:
            self.break_off(error)
            raise
        if is_news and self.memory.status.state in FINAL:
            self.notify()
        return is_news

    def _starter_after(self, outcome: Outcome) -> Callable[[Status], bool] | None:
        """Give a test of a status: does the thread of this outcome start the next phase at once?"""
        if not isinstance(outcome, PhaseCompleted | PhaseSkipped):
            return None
        action = outcome.place.action

        def starts_next(status: Status) -> bool:
            if status.state in FINAL:
                return False
            steps = self.next_steps(status, action)
            starts = [each.place.action for each in steps if isinstance(each, StartPhase)]
            return action in starts

        return starts_next


_STOPS: Final[Mapping[str, Callable[[], KanisterError]]] = {
    RunCancelled.reason: RunCancelled,
    RunTimedOut.reason: RunTimedOut,
}


class _ActionThread:
    """Thread of one action: takes its steps until there is nothing to do for now."""

    def __init__(self, run: Stepper, action: int) -> None:
        self._run = run
        self._action = action

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
        identity = RunIdentity(
            run.course.actionset.metadata.uid,
            place,
            course.spec.name,
            course.phase(place.phase).name,
            attempt.number,
        )
        why = attempt.stop.why
        if attempt.is_taken_up and why is not None:
            # Calling the function again could start what is to be stopped.
            result: Result = Failed(run.actions.error_of(why))
        else:
            result = self._call(attempt, identity)
        if attempt.is_taken_up and isinstance(result, Failed):
            # The function may have failed before it found the pods of the former process.
            attempt.leftovers.append(partial(self._delete_pods, identity))
        return result

    def _delete_pods(self, identity: RunIdentity) -> None:
        run = self._run
        metadata = run.course.actionset.metadata
        target = run.course.actions[self._action].spec.object.namespace
        namespaces = sorted({metadata.namespace, target or metadata.namespace})
        cluster, owner = run.surroundings.cluster, f"{metadata.namespace}/{metadata.name}"
        delete_pods_of_attempts(cluster, [identity.key()], namespaces, owner)

    def _call(self, attempt: Attempt, identity: RunIdentity) -> Result:
        run, place = self._run, attempt.place
        try:
            work = self._found()
        except KanisterError as error:
            return Failed(run.actions.error_of(error))
        attempt.context = RunningPhase(
            identity,
            run.surroundings,
            attempt.stop,
            masker=work.secrets.masker,
            learn=work.secrets.learn,
            on_progress=lambda percent, moved: self._progress(attempt, percent, moved),
            on_log=self._log_of(identity),
            owner=run.owner,
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
