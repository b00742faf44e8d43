"""A run of an ActionSet: carries it from wherever it stands to its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Condition
from typing import Any, NamedTuple

from kanister_py.core.actionsets.course import Course, first_status
from kanister_py.core.actionsets.outcomes import Abandoned, CancelAsked, Outcome, Resumed, Suspended
from kanister_py.core.actionsets.status import FINAL, Status
from kanister_py.core.errors import KanisterError, RunCancelled
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.run.actions import Actions, FunctionSource
from kanister_py.executor.run.attempts import GRACE_SECONDS
from kanister_py.executor.run.memory import Memory, Onlooker
from kanister_py.executor.run.stepper import Host, Stepper
from kanister_py.executor.run_phase import phase_error_of
from kanister_py.ports.clock import Clock
from kanister_py.ports.journal import Journal
from kanister_py.ports.tracing import begin_span, trace_id_of


class AtWork(NamedTuple):
    """Count of the phases at work, and of those that no other process could take up."""

    phases: int = 0
    untouchable: int = 0


class ActionSetRun:
    """One ActionSet under way in this process.

    The table decides, threads carry out, and every outcome is written to the
    journal before it is acted on. A host keeps it going: it calls `ring` when the
    run asked for it. Anything may be asked of it from any thread.
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
        status = status if status is not None else first_status(course)
        self._steps = Stepper(
            course,
            surroundings,
            Memory(course.rules, status, journal, onlooker),
            Actions(course, functions, surroundings),
            grace_seconds,
            owner,
        )

    @property
    def status(self) -> Status:
        return self._steps.memory.status

    def mask(self, data: Any) -> Any:
        """Give plain data without any secret that the run has come to know."""
        return self._steps.actions.mask(data)

    @property
    def trace_id(self) -> str:
        """The ID of its trace, as W3C Trace Context writes it; empty without one."""
        return trace_id_of(self._steps.span.traceparent)

    @property
    def error(self) -> KanisterError | None:
        """The error that keeps the run from going on, if any."""
        return self._steps.error

    @property
    def is_wanted(self) -> bool:
        """Whether no early end has been asked for."""
        return self._steps.is_wanted

    @property
    def is_done(self) -> bool:
        """Whether nothing of it is left to be done here. The answer comes at once."""
        return self._steps.is_over and not self._steps.is_tidying

    @property
    def is_at_work(self) -> bool:
        """Whether a function runs for it in this process, whatever has become of the run."""
        return len(self._steps.attempts) > 0

    @property
    def at_work(self) -> AtWork:
        """Say how much is at work at this moment."""
        steps = self._steps
        with steps.lock:
            places = () if steps.is_over else tuple(each.place for each in steps.attempts)
            return AtWork(len(places), sum(map(steps.actions.is_untouchable, places)))

    @contextmanager
    def at_rest(self, patience_seconds: float) -> Iterator[bool]:
        """Keep others from changing the run for a block, and say whether that could be had.

        While the cluster takes no writes it cannot: then do something else first.
        """
        is_ours = self._steps.lock.acquire(timeout=patience_seconds)
        try:
            yield is_ours
        finally:
            if is_ours:
                self._steps.lock.release()

    # Its host

    def begin(self, host: Host) -> None:
        """Set out, and come back: from here on the host is woken when there is something to do.

        What makes that impossible is found in `error`.
        """
        with self._steps.lock:
            self._steps.host = host
            metadata = self._steps.course.actionset.metadata
            self._steps.span = begin_span(
                f"run {metadata.name}",
                actionset=metadata.name,
                namespace=metadata.namespace,
                uid=metadata.uid,
            )
            try:
                self._steps.follow_spec()
                self._steps.advance()
                if self._steps.memory.status.state in FINAL:
                    self._steps.notify()
            except KanisterError as error:
                self._steps.break_off(error)

    def ring(self) -> None:
        """Do what is due by now."""
        steps = self._steps
        with steps.lock:
            try:
                steps.timers.act(lambda: not steps.is_over)
            except KanisterError as error:
                steps.break_off(error)

    # What may be asked of it

    def cancel(self, reason: str = RunCancelled.reason, message: str = "") -> None:
        """Ask for an early end: phases at work are to stop, deferred phases still run."""
        self._ask(CancelAsked(self._steps.now(), reason, message))

    def suspend(self) -> None:
        """Start no new phase until `resume`."""
        self._ask(Suspended(self._steps.now()))

    def resume(self) -> None:
        """Start phases again."""
        self._ask(Resumed(self._steps.now()))

    def _ask(self, outcome: Outcome) -> None:
        steps = self._steps
        with steps.lock:
            if steps.is_over:
                return
            steps.record(outcome)
            steps.advance()
            # A thread that waits for another try looks whether that is wanted still.
            steps.changed.notify_all()

    def abort(self) -> None:
        """Come back at once and leave everything as it is, to be taken up later."""
        with self._steps.lock:
            self._steps.is_aborted = True
            self._steps.notify()

    def drain(self) -> None:
        """Begin nothing new. Once nothing is at work, the run is left as if aborted."""
        with self._steps.lock:
            self._steps.is_draining = True
            self._steps.leave_if_drained()

    def abandon(self, why: KanisterError) -> bool:
        """End now: what is at work is left as it is and has failed; nothing is tidied up.

        The status is final then, even where it cannot be written down any more; says
        whether it could.
        """
        steps = self._steps
        with steps.lock:
            if steps.memory.status.is_final:
                return True
            is_kept = steps.memory.record_end(Abandoned(steps.now(), phase_error_of(why)))
            steps.notify()
            return is_kept


class WaitingHost:
    """A host that keeps one run going in the thread that waits for its end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = Condition()
        self._due: float | None = None
        self._is_over = False

    def wake_in(self, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        with self._changed:
            self._due = due if self._due is None else min(self._due, due)
            self._changed.notify_all()

    def on_over(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def carry_out(self, run: ActionSetRun) -> Status:
        """Carry on until the ActionSet is at its end, and say how it stands then.

        Comes back before the end only when aborted. Raises what keeps the run from
        going on; what is at work then is left as it is.
        """
        run.begin(self)
        while self._waits_for_work():
            run.ring()
        if run.error is not None:
            raise run.error
        return run.status

    def _waits_for_work(self) -> bool:
        """Sleep until there is something to do; False when the run is over."""
        with self._changed:
            while not self._is_over:
                left = None if self._due is None else self._due - self._clock.monotonic()
                if left is not None and left <= 0:
                    self._due = None
                    return True
                self._clock.wait(self._changed, left)
            return False
