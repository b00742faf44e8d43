"""Steps of a run, as the table of states allows them: taken, or given to a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from threading import Condition, RLock
from typing import Final, Protocol

from kanister_py.core.actionsets.course import Course
from kanister_py.core.actionsets.outcomes import (
    Begun,
    CancelAsked,
    Outcome,
    PhaseCompleted,
    PhaseFailed,
    PhaseSkipped,
    PhaseStarted,
    Resumed,
    Suspended,
)
from kanister_py.core.actionsets.status import (
    CANCEL_ASKED,
    FINAL,
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
from kanister_py.core.errors import JournalUnwritable, KanisterError, RunCancelled, RunTimedOut
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.run.actions import Actions
from kanister_py.executor.run.attempts import Attempt, Attempts, Timers
from kanister_py.executor.run.memory import Memory
from kanister_py.executor.run_phase import phase_error_of
from kanister_py.ports.tracing import NO_SPAN, Span


class Host(Protocol):
    """Host of a run, which has no thread of its own. Calls must be quick."""

    def wake_in(self, seconds: float) -> None:
        """Have the run's `ring` called after so many seconds; other times count besides."""

    def on_over(self) -> None:
        """Called once, when the run has come to its end, or cannot go on."""


class Stepper:
    """Takes the steps of one run. The caller holds `lock`.

    `work_on` works on one action in the thread that calls it, for as long as there is
    something to do for it.
    """

    def __init__(
        self,
        course: Course,
        surroundings: Surroundings,
        memory: Memory,
        actions: Actions,
        grace_seconds: float,
        work_on: Callable[[Stepper, int], None],
    ) -> None:
        self.course: Final = course
        self.surroundings: Final = surroundings
        self.memory: Final = memory
        self.actions: Final = actions
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
        self._work_on = work_on
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
                condition = self.memory.status.condition(CANCEL_ASKED)
                why = _STOPS.get(condition.reason if condition is not None else "", RunCancelled)
                self.attempts.stop(place, why())
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
            if not chosen.are_complete:
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
        self._work_on(self, action)

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
        return self.attempts.begin(
            place,
            step.attempt,
            self.course.rules.actions[place.action].phase(place.phase),
            is_taken_up=isinstance(step, ContinuePhase),
            spent_seconds=(now - started).total_seconds(),
            since=began,
        )

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
