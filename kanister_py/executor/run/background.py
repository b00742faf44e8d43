"""A run in the background of this process, for commands and scripts: wait, cancel, get results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any

from kanister_py.core.actionsets.status import State, Status, Warned, warned_of
from kanister_py.core.errors import Fault, KanisterError, RunStopped
from kanister_py.core.notices import Notice
from kanister_py.executor.run.run import ActionSetRun
from kanister_py.executor.timers import TimerService
from kanister_py.ports.clock import Clock


class WaitingHost:
    """Host of one run. The thread that calls `carry_out` processes the timers until the end."""

    def __init__(self, clock: Clock) -> None:
        self.timers = TimerService(clock)
        self._clock = clock
        self._changed = Condition()
        self._is_awake = False
        self._is_over = False

    def wake(self) -> None:
        with self._changed:
            self._is_awake = True
            self._changed.notify_all()

    def on_over(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def carry_out(self, run: ActionSetRun) -> Status:
        """Run until the end, and return the status.

        Returns before the end only if the run is aborted. Raises the error that stops the run in
        this process; functions that are running are not stopped then.
        """
        try:
            run.begin(self)
            while self._waits_for_work():
                run.process_timers()
        finally:
            self.timers.close()
        if run.error is not None:
            raise run.error
        return run.status

    def _waits_for_work(self) -> bool:
        """Sleep until a timer is due. Returns False if the run is over."""
        with self._changed:
            while not self._is_over:
                if self._is_awake:
                    self._is_awake = False
                    return True
                self._clock.wait(self._changed)
            return False


class Run:
    """An ActionSet that runs in the background of this process.

    `before` is called first, with a function that returns whether the run is still wanted.
    `close` is always called last. Both return notices for the user.
    """

    def __init__(
        self,
        name: str,
        work: ActionSetRun,
        clock: Clock,
        *,
        before: Callable[[Callable[[], bool]], Sequence[Notice]] | None,
        close: Callable[[], Sequence[Notice]],
    ) -> None:
        self.name = name
        self._work = work
        self._host = WaitingHost(clock)
        self._close = close
        self._before = before
        self._early_notices: tuple[Warned, ...] = ()
        self._late_notices: tuple[Warned, ...] = ()
        self._error: BaseException | None = None
        self.is_kept = True
        """Whether the end of the run could be recorded."""
        self._thread = Thread(target=self._execute, name=f"run {self.name}", daemon=True)

    def start(self) -> Run:
        """Start the run in the background."""
        self._thread.start()
        return self

    def _execute(self) -> None:
        try:
            if self._before is not None:
                notices = self._before(lambda: self._work.is_wanted)
                self._early_notices = tuple(map(warned_of, notices))
            self._host.carry_out(self._work)
        except BaseException as error:  # noqa: BLE001 # raised again by `wait`
            self._error = error
            self._abandon(error if isinstance(error, KanisterError) else Fault(str(error)))
        finally:
            try:
                self._late_notices = tuple(map(warned_of, self._close()))
            except KanisterError as error:
                self._error = self._error or error
                self.is_kept = False

    def wait(self, timeout_seconds: float | None = None) -> Run:
        """Wait for the end. Raises the error if the run could not be executed to its end.

        A failed run raises nothing: see `state`. Returns early after `timeout_seconds`.
        """
        self._thread.join(timeout_seconds)
        if not self._thread.is_alive() and self._error is not None:
            raise self._error
        return self

    def cancel(self, reason: str = "Cancelled") -> None:
        """Request cancellation; deferred phases still run."""
        self._work.cancel(reason)

    def abort(self) -> None:
        """End without recording anything, so that the run can be resumed later."""
        self._work.abort()

    def stop(self) -> None:
        """End immediately, without waiting for functions and without cleanup."""
        self._abandon(RunStopped())

    def _abandon(self, why: KanisterError) -> None:
        self.is_kept = self._work.abandon(why)

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    @property
    def progress(self) -> Status:
        """The current status of the ActionSet."""
        return self._work.status

    @property
    def state(self) -> str:
        """One of pending, running, failed, complete."""
        return str(self._work.status.state)

    @property
    def is_complete(self) -> bool:
        return self._work.status.state is State.COMPLETE

    @property
    def status(self) -> dict[str, Any]:
        """The `status` of the resource, without fields that only a restart needs."""
        status = self._work.status.as_dict()
        for action in status.get("actions", ()):
            action.pop("facts", None)
        return status

    @property
    def masked_status(self) -> dict[str, Any]:
        """The `status` with all known secrets masked."""
        masked: dict[str, Any] = self._work.mask(self.status)
        return masked

    @property
    def error(self) -> str:
        """The message of the run's failure; empty without one."""
        error = self._work.status.error
        return error.message if error is not None else ""

    @property
    def outputs(self) -> dict[str, dict[str, Any]]:
        """The outputs of all phases by name. If names are equal, the last phase counts."""
        return {
            phase.name: dict(phase.output.values)
            for action in self._work.status.actions
            for phase in action.every_phase()
            if phase.output is not None
        }

    @property
    def artifacts(self) -> dict[str, dict[str, Any]]:
        """The artifacts of the run for later runs; none unless the run is complete."""
        return self._work.status.output_artifacts

    @property
    def notices(self) -> tuple[Warned, ...]:
        """Notices about the run, such as deprecated versions."""
        return (*self._early_notices, *self._work.status.warnings, *self._late_notices)
