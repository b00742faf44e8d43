"""Carries an ActionSet from wherever it stands to its end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from threading import Condition, RLock
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from kanister_py.core.actionsets.course import ChosenVersions, Course, choose_versions, first_status
from kanister_py.core.actionsets.outcomes import (
    Abandoned,
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
from kanister_py.core.actionsets.status import (
    ActionStatus,
    PhaseError,
    Place,
    Status,
    Warned,
)
from kanister_py.core.actionsets.transitions import (
    CANCEL_ASKED,
    Begin,
    ContinuePhase,
    ExecutionMode,
    Launch,
    RefusePhase,
    RenderArtifacts,
    StartPhase,
    Step,
    StopPhase,
    WaitForRetry,
    next_steps,
    record,
)
from kanister_py.core.errors import (
    Fault,
    JournalUnwritable,
    KanisterError,
    RunCancelled,
    RunTimedOut,
    UsageError,
)
from kanister_py.core.objects.durations import SECOND, format_duration
from kanister_py.core.registry.choose import Asked, choose_version
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.retries import RetryRule
from kanister_py.executor.insist import insist
from kanister_py.executor.launch_action import ActionWork, SecretBook, launch_action
from kanister_py.executor.phase_context import RunIdentity, RunningPhase, StopSignal, Surroundings
from kanister_py.executor.run_phase import (
    Completed,
    Failed,
    Result,
    Skipped,
    leave,
    phase_error_of,
    run_phase,
)
from kanister_py.executor.working import Ticket
from kanister_py.ports.function import Func, OnRestart
from kanister_py.ports.journal import Journal, StateJournal

_LOG: Final = logging.getLogger(__name__)

GRACE_SECONDS: Final = 30.0
"""How long a function that was told to stop may take for it."""


LAUNCH_RETRY: Final = RetryRule(limit=6, backoff_seconds=1.0, max_backoff_seconds=30.0)
"""How often, and after which waits, what an action needs to start is read again."""


class Onlooker(Protocol):
    """Somebody who wants to see a run while it runs. Called from any thread, one at a time."""

    def on_outcome(self, outcome: Outcome, status: Status) -> None: ...

    def on_log(self, action: str, phase: str, line: str) -> None: ...


class Host(Protocol):
    """Whoever keeps a run going that has no thread of its own. Calls must be quick."""

    def wake_at(self, due: datetime) -> None:
        """Have the run's `ring` called at this time; another time counts besides, not instead."""

    def on_over(self) -> None:
        """Hear that the run has come to its end, or cannot go on. Called once."""


class AtWork(NamedTuple):
    """How many phases are at work, and how many of them nobody could take up if left now."""

    phases: int = 0
    untouchable: int = 0


class FunctionSource(NamedTuple):
    """Where functions come from: which there are, and how their code is loaded."""

    registry: Registry[FunctionEntry]
    load: Callable[[FunctionEntry], type[Func]]
    is_strict: bool = False


@dataclass(slots=True, eq=False, repr=False)
class _Call:
    """An attempt that is being carried out at this moment."""

    place: Place
    attempt: int
    is_taken_up: bool
    stop: StopSignal
    ticket: Ticket | None
    timeout_seconds: float | None = None
    is_given_up: bool = False
    context: RunningPhase | None = None
    cleanups: list[Callable[[], None]] = field(default_factory=list)


_Timer: TypeAlias = tuple[float, int, Callable[[], None]]


@dataclass(slots=True, eq=False, repr=False)
class _Hand:
    """What the process holds for the run; all of it can be found again."""

    work: dict[int, ActionWork] = field(default_factory=dict)
    secrets: dict[int, SecretBook] = field(default_factory=dict)
    versions: dict[int, ChosenVersions] = field(default_factory=dict)
    calls: dict[Place, _Call] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)
    rests: dict[Place, float] = field(default_factory=dict)
    timers: list[_Timer] = field(default_factory=list)


class ActionSetRun:
    """One ActionSet under way in this process.

    The table decides, threads carry out, and every outcome is written to the
    journal before anybody acts on it.
    """

    def __init__(
        self,
        course: Course,
        functions: FunctionSource,
        surroundings: Surroundings,
        *,
        journal: Journal | None = None,
        status: Status | None = None,
        onlooker: Onlooker | None = None,
        owner: Mapping[str, Any] | None = None,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._course = course
        self._functions = functions
        self._surroundings = surroundings
        self._journal = journal
        self._onlooker = onlooker
        self._owner = owner
        self._grace_seconds = grace_seconds
        self._status = status if status is not None else first_status(course)
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._hand = _Hand()
        self._numbers = count()
        self._broken: KanisterError | None = None
        self._is_aborted = False
        self._is_draining = False
        self._tidying = 0
        self._host: Host | None = None

    @property
    def status(self) -> Status:
        return self._status

    @property
    def error(self) -> KanisterError | None:
        """What keeps the run from going on, if anything does."""
        return self._broken

    @property
    def is_done(self) -> bool:
        """Whether nothing of it is left to be done here. Nobody has to wait for the answer."""
        return self._is_over() and not self._is_tidying()

    @property
    def is_at_work(self) -> bool:
        """Whether a function runs for it in this process, whatever has become of the run."""
        return bool(self._hand.calls)

    @contextmanager
    def at_rest(self, patience_seconds: float) -> Iterator[bool]:
        """Keep others from changing the run for a block, and say whether that could be had.

        While the cluster takes no writes it cannot: then do something else first.
        """
        is_ours = self._lock.acquire(timeout=patience_seconds)
        try:
            yield is_ours
        finally:
            if is_ours:
                self._lock.release()

    @property
    def at_work(self) -> AtWork:
        """Say how much is at work at this moment."""
        with self._lock:
            calls = () if self._is_over() else tuple(self._hand.calls.values())
            return AtWork(len(calls), sum(map(self._is_untouchable, calls)))

    @property
    def course(self) -> Course:
        return self._course

    @property
    def is_wanted(self) -> bool:
        """Whether nobody has asked for an early end."""
        return not self._is_over() and self._status.condition(CANCEL_ASKED) is None

    # What others may ask for, from any thread

    def cancel(self, reason: str = RunCancelled.reason, message: str = "") -> None:
        """Ask for an early end: phases at work are told to stop, deferred phases still run."""
        self._ask(CancelAsked(self._now(), reason, message))

    def suspend(self) -> None:
        """Start no new phase until somebody resumes."""
        self._ask(Suspended(self._now()))

    def resume(self) -> None:
        """Start phases again."""
        self._ask(Resumed(self._now()))

    def abort(self) -> None:
        """Come back at once and leave everything as it is, to be taken up later."""
        with self._lock:
            self._is_aborted = True
            self._tell()

    def abandon(self, why: KanisterError) -> bool:
        """End now: what is at work is left as it is and has failed; nothing is tidied up.

        The status is final then, even where it cannot be written down any more; says
        whether it could.
        """
        with self._lock:
            if self._status.is_final:
                return True
            outcome = Abandoned(self._now(), phase_error_of(why))
            status = record(self._course.rules, self._status, outcome)
            is_kept = True
            if self._journal is not None:
                try:
                    self._journal.write(outcome, status, must_last=True)
                except JournalUnwritable:
                    is_kept = False
            self._status = status
            if self._onlooker is not None:
                self._onlooker.on_outcome(outcome, status)
            self._tell()
            return is_kept

    def drain(self) -> None:
        """Begin nothing new. Once nothing is at work, the run is left as if aborted."""
        with self._lock:
            self._is_draining = True
            self._leave_if_drained()

    def _leave_if_drained(self) -> None:
        if self._is_draining and not self._hand.calls and not self._is_over():
            if isinstance(self._journal, StateJournal):
                self._guarded(self._journal.catch_up)
            self._is_aborted = True
            self._tell()

    def _ask(self, outcome: Outcome) -> None:
        with self._lock:
            if self._is_over():
                return
            self._record(outcome)
            self._advance()
            # Whoever lets time pass before another try looks whether it is wanted still.
            self._changed.notify_all()

    # The run, kept going by a host

    def begin(self, host: Host) -> None:
        """Set out, and come back: from here on the host is told when it has to do something.

        What makes that impossible is found in `error`.
        """
        with self._lock:
            self._host = host
            self._guarded(self._set_out)

    def ring(self) -> None:
        """Do what is due by now."""
        with self._lock:
            self._guarded(self._run_timers)
            seconds = self._seconds_to_timer()
            if seconds is not None and self._host is not None and not self._is_over():
                self._host.wake_at(self._now() + timedelta(seconds=seconds))

    def _set_out(self) -> None:
        self._follow_spec()
        self._advance()
        if self._status.is_final:
            self._tell()

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except KanisterError as error:
            self._break(error)

    def _tell(self) -> None:
        """Let whoever waits for the run know that it has changed. The lock is held."""
        self._changed.notify_all()
        if self._host is not None and self._is_over() and not self._is_tidying():
            host, self._host = self._host, None
            host.on_over()

    # The run

    def run(self) -> Status:
        """Carry on until the ActionSet is at its end, and say how it stands then.

        Comes back before the end only when aborted. Raises `JournalUnwritable` when
        nothing can be remembered any more; what runs then is left as it is.
        """
        with self._lock:
            self._follow_spec()
            self._advance()
            while not self._is_over() or self._is_tidying():
                self._run_timers()
                if not self._is_over() or self._is_tidying():
                    self._surroundings.clock.wait(self._changed, self._seconds_to_timer())
            if self._broken is not None:
                raise self._broken
            return self._status

    def _is_over(self) -> bool:
        return self._status.is_final or self._is_aborted or self._broken is not None

    def _is_tidying(self) -> bool:
        return self._tidying > 0 and not self._is_aborted and self._broken is None

    def _follow_spec(self) -> None:
        if self._status.is_final:
            return
        spec = self._course.actionset.spec
        if spec.cancel:
            self._record(CancelAsked(self._now()))
        self._record(Suspended(self._now()) if spec.suspend else Resumed(self._now()))

    def _advance(self, action: int | None = None) -> None:
        """Take every step that the table allows. The lock is held."""
        again = True
        while again and not self._is_over():
            again = False
            for step in self._next_steps(self._status, action):
                again = self._take(step) or again
                if self._is_over():
                    break

    def _take(self, step: Step) -> bool:
        """Take one step, and say whether the status is another one for it."""
        match step:
            case Begin():
                return self._begin()
            case RefusePhase(place, reason, message):
                return self._refuse(place, reason, message)
            case StopPhase(place):
                self._stop(place)
            case WaitForRetry(place, until):
                self._rest_until(place, until)
            case Launch(action) | RenderArtifacts(action):
                self._set_to_work(action)
            case StartPhase(place) | ContinuePhase(place):
                self._set_to_work(place.action)
        return False

    def _next_steps(self, status: Status, action: int | None) -> list[Step]:
        rests, passed = self._hand.rests, self._surroundings.clock.monotonic()
        return next_steps(
            self._course.rules,
            status,
            self._now(),
            working=self._hand.calls,
            rested={place: due <= passed for place, due in rests.items()},
            action=action,
        )

    def _rest_until(self, place: Place, until: datetime) -> None:
        """Let a phase wait for its next try; from here on the time that passes counts."""
        if place in self._hand.rests:
            return
        seconds = (until - self._now()).total_seconds()
        due = self._hand.rests[place] = self._surroundings.clock.monotonic() + seconds
        self._set_timer_at(due, lambda: self._advance(place.action))

    def _begin(self) -> bool:
        versions: list[tuple[str, ...]] = []
        warnings: list[Warned] = []
        for index, each in enumerate(self._course.actions):
            try:
                chosen = choose_versions(
                    self._functions.registry, each, strict=self._functions.is_strict
                )
            except KanisterError as error:
                return self._record(LaunchFailed(self._now(), index, phase_error_of(error)))
            self._hand.versions[index] = chosen
            versions.append(chosen.versions)
            warnings += chosen.warnings
        return self._record(Begun(self._now(), tuple(versions), tuple(warnings)))

    def _refuse(self, place: Place, reason: str, message: str) -> bool:
        if place.action in self._hand.busy:
            # Somebody is about to look at this action, and will be told the same.
            return False
        return self._record(PhaseFailed(self._now(), place, _refusal(reason, message)))

    def _set_to_work(self, action: int) -> None:
        if action not in self._hand.busy and not self._is_draining:
            self._hand.busy.add(action)
            self._surroundings.workers.submit(lambda: self._work_on(action))

    # Timers

    def _set_timer(self, due: datetime, act: Callable[[], None]) -> None:
        # From here on the time that passes counts: somebody may set the clock.
        seconds = (due - self._now()).total_seconds()
        self._set_timer_at(self._surroundings.clock.monotonic() + seconds, act)

    def _set_timer_at(self, at: float, act: Callable[[], None]) -> None:
        heappush(self._hand.timers, (at, next(self._numbers), act))
        self._changed.notify_all()
        if self._host is not None:
            seconds = at - self._surroundings.clock.monotonic()
            self._host.wake_at(self._now() + timedelta(seconds=seconds))

    def _run_timers(self) -> None:
        timers = self._hand.timers
        clock = self._surroundings.clock
        while timers and timers[0][0] <= clock.monotonic() and not self._is_over():
            heappop(timers)[2]()

    def _seconds_to_timer(self) -> float | None:
        if not self._hand.timers:
            return None
        return max(0.0, self._hand.timers[0][0] - self._surroundings.clock.monotonic())

    # Working on one action, in a thread of its own

    def _work_on(self, action: int) -> None:
        try:
            while self._work_once(action):
                pass
        except KanisterError as error:
            self._break(error)
        except Exception as error:  # noqa: BLE001 # a thread that dies in silence leaves us waiting
            _LOG.exception("A run fell over")
            self._break(Fault(f"A run fell over: {type(error).__name__}: {error}"))

    def _break(self, error: KanisterError) -> None:
        with self._lock:
            self._broken = self._broken or error
            self._tell()

    def _work_once(self, action: int) -> bool:
        """Do the next thing for an action, and say whether there may be another."""
        with self._lock:
            step = self._claim(action)
            call = self._call_for(step)
        match step:
            case Launch():
                self._launch(action)
            case StartPhase() | ContinuePhase():
                assert call is not None
                result = self._attempt(call)
                with self._lock:
                    goes_on = self._finish(call, result)
                self._tidy(call)
                return goes_on
            case RenderArtifacts():
                self._render_artifacts(action)
            case _:
                return False
        return True

    def _claim(self, action: int) -> Step | None:
        """Choose the next step for an action; if there is none, let go of the action."""
        while not self._is_over() and not self._is_draining:
            steps = self._next_steps(self._status, action)
            step = next((each for each in steps if _action_of(each) == action), None)
            if isinstance(step, RefusePhase):
                error = _refusal(step.reason, step.message)
                self._record(PhaseFailed(self._now(), step.place, error))
                continue
            if isinstance(step, WaitForRetry):
                self._take(step)
            if isinstance(step, Launch | StartPhase | ContinuePhase | RenderArtifacts):
                return step
            break
        self._let_go(action)
        return None

    def _let_go(self, action: int) -> None:
        self._hand.busy.discard(action)
        is_done = self._status.actions[action].completion_time is not None
        if is_done and self._course.rules.mode is ExecutionMode.SEQUENTIAL:
            self._advance()

    def _launch(self, action: int) -> None:
        work: ActionWork | KanisterError
        try:
            work = self._work_of(action)
        except KanisterError as error:
            work = error
        with self._lock:
            if self._is_over():
                return
            if isinstance(work, KanisterError):
                self._record(LaunchFailed(self._now(), action, self._error_of(action, work)))
                return
            self._record(Launched(self._now(), action, work.facts))
            if self._status.totals.unlaunched == 0:
                self._advance()

    def _work_of(self, action: int) -> ActionWork:
        """Give what the process holds for an action, found anew if it holds nothing.

        What may pass by itself is waited for, a few times.
        """

        def rest(_: KanisterError, seconds: float) -> bool:
            return self._rest(action, seconds)

        return insist(lambda: self._find_work(action), LAUNCH_RETRY, rest)

    def _rest(self, action: int, seconds: float) -> bool:
        """Let time pass, and say whether the action is wanted still."""
        clock = self._surroundings.clock
        until = clock.monotonic() + seconds
        with self._surroundings.workers.idle(), self._lock:
            while self._is_wanted_still(action) and (left := until - clock.monotonic()) > 0:
                clock.wait(self._changed, left)
            return self._is_wanted_still(action)

    def _is_wanted_still(self, action: int) -> bool:
        # A cancel spares what has to be tidied up.
        was_launched = self._status.actions[action].start_time is not None
        return not self._is_over() and (was_launched or self.is_wanted)

    def _find_work(self, action: int) -> ActionWork:
        work = self._hand.work.get(action)
        if work is None:
            status = self._status.actions[action]
            was_launched = status.start_time is not None
            work = self._hand.work[action] = launch_action(
                self._course.actions[action],
                action,
                [self._functions.load(each) for each in self._entries(action, status)],
                self._surroundings.cluster,
                self._surroundings.effects,
                status.start_time or self._now(),
                status if was_launched or any(each.output for each in status.phases) else None,
                secrets=self._hand.secrets.setdefault(action, SecretBook()),
            )
        return work

    def _error_of(self, action: int, error: KanisterError) -> PhaseError:
        """Say what went wrong with an action outside its phases, without its secrets."""
        book = self._hand.secrets.get(action)
        return phase_error_of(error, masker=book.masker if book is not None else None)

    def _entries(self, action: int, status: ActionStatus) -> tuple[FunctionEntry, ...]:
        chosen = self._hand.versions.get(action)
        if chosen is not None:
            return chosen.entries
        course = self._course.actions[action]
        known = [each.func_version for each in status.phases]
        if status.deferred is not None:
            known.append(status.deferred.func_version)
        return tuple(
            choose_version(
                self._functions.registry, phase.func, Asked(version, "this run"), strict=True
            ).chosen
            for (_, phase), version in zip(course.action.every_phase(), known, strict=True)
        )

    def _render_artifacts(self, action: int) -> None:
        outcome: Outcome
        try:
            artifacts = self._work_of(action).render_artifacts()
            outcome = ArtifactsRendered(self._now(), action, artifacts)
        except KanisterError as error:
            outcome = ArtifactsFailed(self._now(), action, self._error_of(action, error))
        with self._lock:
            self._record(outcome)

    # Attempts

    def _call_for(self, step: Step | None) -> _Call | None:
        """Record that an attempt starts. From here on it is under way."""
        if not isinstance(step, StartPhase | ContinuePhase):
            return None
        place, attempt = step.place, step.attempt
        # Writing the start takes its time, in which somebody may set the clock.
        now, began = self._now(), self._surroundings.clock.monotonic()
        is_taken_up = isinstance(step, ContinuePhase)
        if not is_taken_up:
            self._record(PhaseStarted(now, place, attempt))
            self._hand.rests.pop(place, None)
        rules = self._course.rules.actions[place.action].phase(place.phase)
        call = _Call(
            place,
            attempt,
            is_taken_up,
            StopSignal(),
            self._surroundings.workers.current,
            rules.timeout_seconds,
        )
        self._hand.calls[place] = call
        started = self._status.phase_at(place).start_time or now
        if rules.timeout_seconds is not None:
            left = rules.timeout_seconds - (now - started).total_seconds()
            self._set_timer_at(began + left, lambda: self._time_out(call))
        return call

    def _attempt(self, call: _Call) -> Result:
        course = self._course.actions[call.place.action]
        phase = course.phase(call.place.phase)
        identity = RunIdentity(
            self._course.actionset.metadata.uid,
            call.place,
            course.spec.name,
            phase.name,
            call.attempt,
        )
        try:
            work = self._work_of(call.place.action)
        except KanisterError as error:
            return Failed(self._error_of(call.place.action, error))
        context = RunningPhase(
            identity,
            self._surroundings,
            call.stop,
            masker=work.secrets.masker,
            learn=work.secrets.learn,
            on_progress=lambda percent: self._progress(call, percent),
            on_log=self._log_of(identity),
            owner=self._owner,
        )
        call.context = context
        return run_phase(
            work.phases[call.place.phase], work.params, context, is_taken_up=call.is_taken_up
        )

    def _log_of(self, identity: RunIdentity) -> Callable[[str], None] | None:
        onlooker = self._onlooker
        if onlooker is None:
            return None
        return lambda line: onlooker.on_log(identity.action, identity.phase, line)

    def _progress(self, call: _Call, percent: int) -> None:
        with self._lock:
            if self._hand.calls.get(call.place) is call and not self._is_over():
                self._record(PhaseProgressed(self._now(), call.place, percent))

    def _finish(self, call: _Call, result: Result) -> bool:
        """Record what came of an attempt, and say whether its thread may go on."""
        if call.is_given_up:
            # Its end was recorded without it.
            self._take_cleanups(call)
            return False
        del self._hand.calls[call.place]
        if self._is_over():
            return False
        self._take_cleanups(call)
        self._record(self._outcome_of(call, result), is_tidy=not call.cleanups)
        self._leave_if_drained()
        work = self._hand.work.get(call.place.action)
        if work is not None:
            output = self._status.phase_at(call.place).output
            values = output.values if output is not None else None
            leave(work.params, work.phases[call.place.phase], values)
        return True

    def _take_cleanups(self, call: _Call) -> None:
        if call.context is not None:
            call.cleanups = call.context.take_cleanups()
            self._tidying += bool(call.cleanups)

    def _tidy(self, call: _Call) -> None:
        """Clean up after an attempt whose outcome is written down; no lock is held meanwhile.

        Without that, all is left as it is, to be found again.
        """
        if not call.cleanups:
            return
        try:
            for clean in call.cleanups:
                clean()
        finally:
            with self._lock:
                self._tidying -= 1
                self._tell()

    def _outcome_of(self, call: _Call, result: Result) -> Outcome:
        now = self._now()
        match result:
            case Completed(output):
                return PhaseCompleted(now, call.place, output)
            case Skipped():
                return PhaseSkipped(now, call.place)
            case Failed(error, output):
                return PhaseFailed(now, call.place, error, output)

    # Ends that are not the function's own

    def _stop(self, place: Place) -> None:
        call = self._hand.calls[place]
        if call.stop.why is None:
            condition = self._status.condition(CANCEL_ASKED)
            reason = condition.reason if condition is not None else ""
            self._tell_to_stop(call, _STOPS.get(reason, RunCancelled)())

    def _time_out(self, call: _Call) -> None:
        if self._hand.calls.get(call.place) is call and call.stop.why is None:
            phase = self._course.phase(call.place)
            nanoseconds = int((call.timeout_seconds or 0.0) * SECOND)
            late = f"within its timeout of {format_duration(nanoseconds)}"
            why = UsageError(f"Phase {phase.name} did not end {late}", reason="PhaseTimedOut")
            self._tell_to_stop(call, why)

    def _tell_to_stop(self, call: _Call, why: KanisterError) -> None:
        due = self._now() + timedelta(seconds=self._grace_seconds)
        self._set_timer(due, lambda: self._give_up(call))
        call.stop.set(why)

    def _give_up(self, call: _Call) -> None:
        """Go on without a function that does not listen."""
        if self._hand.calls.get(call.place) is not call:
            return
        call.is_given_up = True
        if call.ticket is not None:
            self._surroundings.workers.give_up(call.ticket)
        del self._hand.calls[call.place]
        self._hand.busy.discard(call.place.action)
        why = call.stop.why or RunCancelled()
        self._record(PhaseFailed(self._now(), call.place, phase_error_of(why)))
        self._advance(call.place.action)

    # Memory

    def _record(self, outcome: Outcome, *, is_tidy: bool = False) -> bool:
        """Write an outcome down and let it count; say whether it changed anything.

        `is_tidy` says that nothing waits for it to be written but the next step.
        """
        status = record(self._course.rules, self._status, outcome)
        if status is self._status:
            return False
        journal = self._journal
        if is_tidy and isinstance(journal, StateJournal) and self._goes_on(outcome, status):
            journal.pass_over(status)
        elif journal is not None:
            try:
                journal.write(outcome, status, must_last=self._must_last(outcome, status))
            except JournalUnwritable as error:
                self._broken = self._broken or error
                self._tell()
                raise
        self._status = status
        if self._onlooker is not None:
            self._onlooker.on_outcome(outcome, status)
        if status.is_final:
            self._tell()
        return True

    def _goes_on(self, outcome: Outcome, status: Status) -> bool:
        """Say whether the thread that brings this outcome starts the next phase right away."""
        if self._is_draining or not isinstance(outcome, PhaseCompleted | PhaseSkipped):
            return False
        action = outcome.place.action
        steps = self._next_steps(status, action)
        return any(isinstance(each, StartPhase) and each.place.action == action for each in steps)

    def _must_last(self, outcome: Outcome, status: Status) -> bool:
        if status.is_final or isinstance(outcome, Begun):
            return True
        if not isinstance(outcome, PhaseStarted):
            return False
        return self._cannot_be_taken_up(outcome.place)

    def _cannot_be_taken_up(self, place: Place) -> bool:
        work = self._hand.work.get(place.action)
        if work is None:
            return True
        return work.phases[place.phase].function.on_restart is OnRestart.FAIL

    def _is_untouchable(self, call: _Call) -> bool:
        return self._cannot_be_taken_up(call.place)

    def _now(self) -> datetime:
        return self._surroundings.clock.now()


_STOPS: Final[Mapping[str, Callable[[], KanisterError]]] = {
    RunCancelled.reason: RunCancelled,
    RunTimedOut.reason: RunTimedOut,
}


def _refusal(reason: str, message: str) -> PhaseError:
    what = "The run's time was over" if reason == RunTimedOut.reason else "The run was cancelled"
    return PhaseError(message or f"{what} before its turn came", reason)


def _action_of(step: Step) -> int | None:
    match step:
        case Launch(action) | RenderArtifacts(action):
            return action
        case Begin():
            return None
        case _:
            return step.place.action
