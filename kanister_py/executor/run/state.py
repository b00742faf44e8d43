"""Shared state of a run's threads: its status and journal, its lock, and its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, RLock
from typing import Final, Protocol

from kanister_py.core.actionsets.course import Course
from kanister_py.core.actionsets.outcomes import Outcome
from kanister_py.core.actionsets.status import CANCEL_ASKED, FINAL, Status
from kanister_py.core.actionsets.transitions import record
from kanister_py.core.errors import JournalUnwritable, KanisterError, RunCancelled, RunTimedOut
from kanister_py.executor.timers import Timer, TimerService
from kanister_py.ports.clock import Clock
from kanister_py.ports.journal import Journal
from kanister_py.ports.tracing import NO_SPAN, Span


class RunObserver(Protocol):
    """Observer of a run. Called from any thread of the run.

    The run's lock is held during `on_outcome`, but not during `on_log`: actions that run at the
    same time may call it at the same time.
    """

    def on_outcome(self, outcome: Outcome, status: Status) -> None: ...

    def on_log(self, action: str, phase: str, line: str) -> None: ...


class Host(Protocol):
    """Owner of the thread in which a run's timers fire. Calls must be quick."""

    timers: TimerService

    def wake(self) -> None:
        """Request a call of the run's `process_timers`."""

    def on_over(self) -> None:
        """Called once, when the run has ended or cannot continue in this process."""


class RunState:
    """State of one run in this process.

    `lock` guards it, and everything that workers and attempts change. Callers of methods must
    hold it, except for `try_lock`; attributes may be read without it.
    """

    def __init__(
        self,
        course: Course,
        status: Status,
        clock: Clock,
        journal: Journal | None,
        observer: RunObserver | None,
    ) -> None:
        self.course: Final = course
        self.status = status
        self.observer: Final = observer
        self.now: Final = clock.now
        self.lock: Final = RLock()
        self.changed: Final = Condition(self.lock)
        self.timers: Final = RunTimers(clock)
        self.span: Span = NO_SPAN
        self.error: KanisterError | None = None
        self.is_aborted = False
        self.is_draining = False
        self.attempts = 0
        """Calls of functions that the run waits for."""
        self._journal = journal
        self._host: Host | None = None
        self._cleanups = 0
        """Attempts whose outcome is recorded, but whose cleanup is not finished."""

    @property
    def is_over(self) -> bool:
        """Whether no further step is taken: the run has ended, or was stopped in this process."""
        return self.status.state in FINAL or self.is_aborted or self.error is not None

    @property
    def is_cleaning_up(self) -> bool:
        return self._cleanups > 0 and not self.is_aborted and self.error is None

    @property
    def is_cancelled(self) -> bool:
        return self.status.condition(CANCEL_ASKED) is not None

    @property
    def why_cancelled(self) -> KanisterError:
        """The error for phases that are stopped because the run was cancelled."""
        condition = self.status.condition(CANCEL_ASKED)
        is_late = condition is not None and condition.reason == RunTimedOut.reason
        return RunTimedOut() if is_late else RunCancelled()

    @property
    def is_wanted(self) -> bool:
        """Whether the run continues, and no cancellation was requested."""
        return not self.is_over and not self.is_cancelled

    @contextmanager
    def try_lock(self, timeout_seconds: float) -> Iterator[bool]:
        """Acquire the lock for a block; yields False if that was not possible in time."""
        is_locked = self.lock.acquire(timeout=timeout_seconds)
        try:
            yield is_locked
        finally:
            if is_locked:
                self.lock.release()

    # End

    def begin(self, host: Host, span: Span) -> None:
        self._host, self.span = host, span
        self.timers.begin(host)

    def notify(self) -> None:
        """Wake the threads that wait for a change, and the host if the run is over."""
        self.changed.notify_all()
        if self._host is not None and self.is_over and not self.is_cleaning_up:
            host, self._host = self._host, None
            self.timers.cancel()
            self._end_span()
            host.on_over()

    def _end_span(self) -> None:
        self.span.note(state=str(self.status.state))
        failure = self.error or self.status.error
        if failure is not None:
            self.span.fail(failure.reason, failure.message)
        self.span.end()

    def break_off(self, error: KanisterError) -> None:
        """Stop the run in this process with an error. Only the first error counts."""
        self.error = self.error or error
        self.notify()

    def abort(self) -> None:
        """Stop the run in this process without an error, for a later process to resume."""
        self.is_aborted = True
        self.notify()

    def abort_if_drained(self) -> None:
        """Abort a draining run once no function is running."""
        if not self.is_draining or self.attempts or self.is_over:
            return
        try:
            if self._journal is not None:
                self._journal.catch_up()
        except KanisterError as error:
            self.break_off(error)
        self.abort()

    def begin_cleanup(self) -> None:
        self._cleanups += 1

    def end_cleanup(self) -> None:
        self._cleanups -= 1
        self.notify()

    # Status

    def record(
        self,
        outcome: Outcome,
        *,
        must_last: bool = False,
        is_followed: Callable[[Status], bool] | None = None,
    ) -> bool:
        """Write an outcome to the journal, then apply it; return whether the status changed.

        With `must_last` the entry survives a power loss. `is_followed` decides by the new
        status whether another entry follows immediately. If the journal cannot be written, the
        run is stopped and the error is raised.
        """
        status = record(self.course.rules, self.status, outcome)
        if status is self.status:
            return False
        if self._journal is not None:
            try:
                self._journal.write(
                    outcome,
                    status,
                    must_last=must_last or status.state in FINAL,
                    is_followed=is_followed is not None and is_followed(status),
                )
            except JournalUnwritable as error:
                self.break_off(error)
                raise
        self._apply(outcome, status)
        if status.state in FINAL:
            self.notify()
        return True

    def record_end(self, outcome: Outcome) -> bool:
        """Apply the last outcome even if it cannot be written; return whether it was written."""
        status = record(self.course.rules, self.status, outcome)
        is_written = True
        if self._journal is not None:
            try:
                self._journal.write(outcome, status, must_last=True)
            except JournalUnwritable:
                is_written = False
        self._apply(outcome, status)
        self.notify()
        return is_written

    def _apply(self, outcome: Outcome, status: Status) -> None:
        self.status = status
        if self.observer is not None:
            self.observer.on_outcome(outcome, status)


class RunTimers:
    """Delayed calls of one run. Callers must hold the lock of the run.

    A timer that is due only wakes the host. `act` makes the call, in the host's thread.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._host: Host | None = None
        self._timers: list[Timer] = []
        self._due: deque[Callable[[], None]] = deque()

    def begin(self, host: Host) -> None:
        self._host = host

    def set(self, seconds: float, act: Callable[[], None], *, since: float | None = None) -> float:
        """Call `act` this many seconds after `since`, or after now; returns the time it is due."""
        assert self._host is not None
        now = self._clock.monotonic()
        due = (now if since is None else since) + seconds
        host = self._host

        def come_due() -> None:
            # Called by the timer service, without the lock of the run.
            self._due.append(act)
            host.wake()

        pending = [timer for timer in self._timers if timer.due > now]
        self._timers = [*pending, host.timers.call_later(due - now, come_due)]
        return due

    def act(self, goes_on: Callable[[], bool]) -> None:
        """Make the calls that are due, as long as `goes_on()` is true."""
        while self._due and goes_on():
            self._due.popleft()()

    def cancel(self) -> None:
        """Cancel the calls that are not due yet."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []
