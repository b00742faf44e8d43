"""Active runs: the state that this process keeps for each ActionSet that it runs."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, NamedTuple

from kanister_py.controller.actionsets.projection import CachedActionSet, Live
from kanister_py.controller.actionsets.status import StatusWriter
from kanister_py.controller.machine.events import Subject
from kanister_py.controller.machine.metrics import ActionLabels
from kanister_py.controller.machine.work_loop import WorkQueue
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.parts import spec_of
from kanister_py.executor.run.run import ActionSetRun
from kanister_py.executor.timers import TimerService
from kanister_py.executor.watch_cache import ObjectKey

_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, repr=False)
class Host:
    """Host of one run. Queues the key of the ActionSet when a timer of the run is due."""

    key: ObjectKey
    queue: WorkQueue[ObjectKey]
    timers: TimerService
    is_due: bool = False

    def wake(self) -> None:
        self.is_due = True
        self.queue.add(self.key)

    def on_over(self) -> None:
        self.queue.add(self.key)


class _DesiredState(NamedTuple):
    """State that the spec or the deletion of an ActionSet requests."""

    is_cancelled: bool
    is_suspended: bool
    is_deleted: bool = False


@dataclass(slots=True, eq=False, repr=False)
class ActiveRun:
    """A run that this process executes, with its status writer and its host."""

    uid: str
    subject: Subject
    run: ActionSetRun
    writer: StatusWriter
    host: Host
    action_labels: tuple[ActionLabels, ...]
    is_resumed: bool
    is_suspended: bool
    is_cancelled: bool = False

    def needs_update(self, cached: CachedActionSet | None) -> bool:
        """Return whether `update` has anything to do. Usually not: most changes are own writes."""
        desired = self._desired(cached)
        return (
            self.host.is_due
            or self.writer.has_due_write
            or desired.is_suspended != self.is_suspended
            or (desired.is_cancelled and not self.is_cancelled)
        )

    def update(self, cached: CachedActionSet | None) -> None:
        """Apply the spec to the run, process its due timers, and write deferred progress.

        The caller must hold the run's lock.
        """
        self._apply(self._desired(cached))
        if self.host.is_due:
            self.host.is_due = False
            self.run.process_timers()
        try:
            self.writer.flush()
        except KanisterError as error:
            _LOG.warning("The progress of a run cannot be written: %s", error.message)

    def _desired(self, cached: CachedActionSet | None) -> _DesiredState:
        if cached is None or cached.uid != self.uid or cached.is_deleted:
            return _DesiredState(True, self.is_suspended, is_deleted=True)
        if not isinstance(cached, Live):
            return _DesiredState(self.is_cancelled, self.is_suspended)
        spec = spec_of(cached.obj)
        return _DesiredState(spec.get("cancel") is True, spec.get("suspend") is True)

    def _apply(self, desired: _DesiredState) -> None:
        try:
            if desired.is_cancelled and not self.is_cancelled:
                self.is_cancelled = True
                self.run.cancel(message="The ActionSet was deleted" if desired.is_deleted else "")
            if desired.is_suspended != self.is_suspended:
                self.is_suspended = desired.is_suspended
                if desired.is_suspended:
                    self.run.suspend()
                else:
                    self.run.resume()
        except KanisterError as error:
            _LOG.warning("A run cannot be cancelled, suspended or resumed: %s", error.message)
