"""Active runs: what a process holds of an ActionSet that is under way, and what it wants by now."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, NamedTuple

from kanister_py.controller.actionsets.projection import Kept, Live
from kanister_py.controller.actionsets.status import StatusWriter
from kanister_py.controller.machine.events import Subject
from kanister_py.controller.machine.metrics import Act
from kanister_py.controller.machine.work_loop import WorkQueue
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.parts import spec_of
from kanister_py.executor.run.run import ActionSetRun
from kanister_py.executor.timers import TimerService
from kanister_py.executor.watch_cache import ObjectKey

_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, repr=False)
class Host:
    """Host of one run: its key is in the queue whenever a timer of the run is due."""

    key: ObjectKey
    queue: WorkQueue[ObjectKey]
    timers: TimerService
    is_due: bool = False

    def wake(self) -> None:
        self.is_due = True
        self.queue.add(self.key)

    def on_over(self) -> None:
        self.queue.add(self.key)


class _Wishes(NamedTuple):
    """What an object wants of its run."""

    is_cancelled: bool
    is_suspended: bool
    is_deleted: bool = False


@dataclass(slots=True, eq=False, repr=False)
class ActiveRun:
    """A run that is under way in this process."""

    uid: str
    subject: Subject
    run: ActionSetRun
    writer: StatusWriter
    host: Host
    acts: tuple[Act, ...]
    is_resumed: bool
    is_suspended: bool
    is_cancelled: bool = False

    def has_news(self, kept: Kept | None) -> bool:
        """Say whether there is anything to tell the run; most of what is seen it did itself."""
        wishes = self._wishes_in(kept)
        return (
            self.host.is_due
            or self.writer.is_late
            or wishes.is_suspended != self.is_suspended
            or (wishes.is_cancelled and not self.is_cancelled)
        )

    def tell(self, kept: Kept | None) -> None:
        """Hand on what the object wants by now, and what time it is; the run is at rest."""
        self._steer(self._wishes_in(kept))
        if self.host.is_due:
            self.host.is_due = False
            self.run.ring()
        try:
            self.writer.flush()
        except KanisterError as error:
            _LOG.warning("The progress of a run cannot be written: %s", error.message)

    def _wishes_in(self, kept: Kept | None) -> _Wishes:
        if kept is None or kept.uid != self.uid or kept.is_deleted:
            return _Wishes(True, self.is_suspended, is_deleted=True)
        if not isinstance(kept, Live):
            return _Wishes(self.is_cancelled, self.is_suspended)
        spec = spec_of(kept.obj)
        return _Wishes(spec.get("cancel") is True, spec.get("suspend") is True)

    def _steer(self, wishes: _Wishes) -> None:
        try:
            if wishes.is_cancelled and not self.is_cancelled:
                self.is_cancelled = True
                self.run.cancel(message="The ActionSet was deleted" if wishes.is_deleted else "")
            if wishes.is_suspended != self.is_suspended:
                self.is_suspended = wishes.is_suspended
                if wishes.is_suspended:
                    self.run.suspend()
                else:
                    self.run.resume()
        except KanisterError as error:
            _LOG.warning("A run cannot be steered: %s", error.message)
