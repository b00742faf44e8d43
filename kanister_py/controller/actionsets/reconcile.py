"""Reconciling an ActionSet: one look at it, and one step.

A pass keeps nothing that the next one needs: what a process holds of a run that is under
way can be found again from the object's status. Users steer a run by its object:

    kanister-py.io/concurrency-key   (annotation or label) one at a time, in order
    kanister-py.io/from              (annotation) the ActionSet whose artifacts these are;
                                     it is not collected while this one lives
    kanister-py.io/retry-of          (annotation) repeat that ActionSet of this namespace:
                                     what it completed is taken over with its outputs,
                                     from `kanister-py.io/retry-from` on everything runs
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import Final

from kanister_py.controller.actionsets.active_run import ActiveRun
from kanister_py.controller.actionsets.concurrency import Concurrency
from kanister_py.controller.actionsets.planner import Planned
from kanister_py.controller.actionsets.projection import (
    Ended,
    Kept,
    Live,
    acts_of,
    keep,
)
from kanister_py.controller.actionsets.reporting import RunReporting
from kanister_py.controller.actionsets.starting import WAITING, RunStarter, without_condition
from kanister_py.controller.actionsets.status import StatusWriter
from kanister_py.controller.actionsets.tidying import Tidying
from kanister_py.controller.machine.events import NORMAL, WARNING, subject_of
from kanister_py.controller.machine.logs import fields_of
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.work_loop import WorkQueue
from kanister_py.core.actionsets.progress import record_phase
from kanister_py.core.actionsets.status import Condition, PhaseError, State, Status
from kanister_py.core.actionsets.stored_status import read_valid_status
from kanister_py.core.actionsets.transitions import refused_status
from kanister_py.core.errors import (
    Forbidden,
    Invalid,
    InvalidDocument,
    KanisterError,
    LeadershipLost,
    RequestTooLarge,
    TransientError,
)
from kanister_py.core.kube.parts import spec_of
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.executor.run.run import ActionSetRun, AtWork
from kanister_py.executor.watch_cache import ObjectKey, WatchCache
from kanister_py.ports.cluster import KubeObject, find

_LOG: Final = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 0.2


class ActionSetReconciler:
    """Reconciler of ActionSets: a look after every change, until each has come to its end."""

    def __init__(
        self,
        tools: PartTools,
        store: WatchCache[Kept],
        queue: WorkQueue[ObjectKey],
        tidying: Tidying,
        concurrency: Concurrency,
        starter: RunStarter,
        reporting: RunReporting,
        *,
        is_paused: bool,
    ) -> None:
        self._tools = tools
        self._store = store
        self._queue = queue
        self._tidying = tidying
        self._concurrency = concurrency
        self._starter = starter
        self._reporting = reporting
        self._is_paused = is_paused
        self._lock = Lock()
        self._active: dict[ObjectKey, ActiveRun] = {}
        self._ended: dict[ObjectKey, str] = {}
        self._is_draining = False

    # What the watch tells

    def on_change(self, key: ObjectKey, old: Kept | None, new: Kept | None) -> None:
        """Hear that an ActionSet is another than before. Decides only who has to look."""
        concurrency = self._concurrency
        if isinstance(new, Live):
            queues = concurrency.queues_for(key, new)
            if queues and not (new.is_pending and new.is_suspended):
                concurrency.stand(key, queues, new.created_at, is_waiting=new.is_pending)
            with self._lock:
                active = self._active.get(key)
            # Most of what is seen of a run it has done itself.
            if active is None or active.has_news(new):
                self._queue.add(key)
            return
        with self._lock:
            self._ended.pop(key, None)
            active = self._active.get(key)
        for follower in concurrency.leave(key):
            self._queue.add(follower)
        if active is not None and active.has_news(new):
            self._queue.add(key)
        if isinstance(new, Ended):
            if new.ttl_seconds is not None or new.has_finalizer:
                self._tidying.add(key)
        elif old is not None:
            self._reporting.lines.forget(key)
            self._tidying.drop(key)
            if active is None:
                self._queue.drop(key)

    # A pass

    def reconcile(self, key: ObjectKey) -> None:
        """Look at an ActionSet, and do what is to be done about it now."""
        kept = self._store.get(key)
        with self._lock:
            active = self._active.get(key)
        if active is not None:
            self._attend(key, active, kept)
        elif isinstance(kept, Live) and not self._is_draining:
            with self._lock:
                has_ended = self._ended.get(key) == kept.uid
            if not has_ended:
                self._begin(key, kept)

    # Runs that are under way

    def is_active(self, key: ObjectKey) -> bool:
        with self._lock:
            return key in self._active

    @property
    def active_runs(self) -> int:
        with self._lock:
            return len(self._active)

    def _attend(self, key: ObjectKey, active: ActiveRun, kept: Kept | None) -> None:
        run = active.run
        is_done = run.is_done
        if not is_done and active.has_news(kept):
            with run.locked(_PATIENCE_SECONDS) as is_ours:
                if not is_ours:
                    # It writes, or cannot: nobody else should have to wait for that.
                    self._queue.add_after(key, _LOOK_AGAIN_SECONDS)
                    return
                active.tell(kept)
            is_done = run.is_done
        if is_done:
            # Its end can be seen in the cluster before all of it has been reported here.
            with run.locked(_PATIENCE_SECONDS) as is_ours:
                pass
            if is_ours:
                self._retire(key, active)
            else:
                self._queue.add_after(key, _LOOK_AGAIN_SECONDS)

    def _retire(self, key: ObjectKey, active: ActiveRun) -> None:
        run = active.run
        if not run.status.is_final:
            self._leave(key, active)
            return
        if active.is_resumed:
            self._tidying.sweep(key, active.uid, run.status)
        active.writer.remove_finalizer()
        with self._lock:
            self._ended[key] = active.uid
            self._active.pop(key, None)
        kept = self._store.get(key)
        if kept is None:
            self._queue.drop(key)
        if not isinstance(kept, Live) or kept.uid != active.uid:
            # The watch has been faster than we are.
            with self._lock:
                self._ended.pop(key, None)
            if isinstance(kept, Live):
                self._queue.add(key)
        for follower in self._concurrency.leave(key):
            self._queue.add(follower)
        self._queue.forget(key)

    def _leave(self, key: ObjectKey, active: ActiveRun) -> None:
        """Let go of a run that could not go on, to take it up again from what is written."""
        run, queue = active.run, self._queue
        error = run.error
        if self._is_draining or not self._may_act():
            with self._lock:
                self._active.pop(key, None)
            return
        if run.is_at_work:
            # The same attempt must not be made twice, not even by one process.
            queue.add_after(key, _LOOK_AGAIN_SECONDS)
            return
        with self._lock:
            self._active.pop(key, None)
        if error is None:
            queue.add(key)
            return
        if isinstance(error.__cause__, Invalid | RequestTooLarge):
            self._end_unwritable(key, active, error)
            return
        seconds = queue.add_rate_limited(key)
        _LOG.warning(
            "ActionSet %s cannot go on, and is looked at again in %g s: %s",
            key,
            seconds,
            error.message,
            extra=fields_of(namespace=key.namespace, actionSet=key.name, reason=error.reason),
        )

    def _end_unwritable(self, key: ObjectKey, active: ActiveRun, error: KanisterError) -> None:
        """End a run whose status the cluster will never take, with as much as it takes."""
        before = active.run.status
        is_too_large = isinstance(error.__cause__, RequestTooLarge)
        reason = "StatusTooLarge" if is_too_large else "StatusRefused"
        bare = refused_status(error.message, reason, self._now())
        refused = bare._replace(
            actions=_interrupted(before, error.message, error, self._now()).actions
        )
        self._tidying.sweep(key, active.uid, before)
        for status in (refused, bare):
            if self._write_end(key, active.writer, status):
                active.writer.remove_finalizer()
                self._reporting.tell_refused(active.subject, status, active.acts)
                return

    def _may_act(self) -> bool:
        try:
            self._tools.check_leadership()
        except LeadershipLost:
            return False
        return True

    # Runs that begin here

    def _begin(self, key: ObjectKey, kept: Live) -> None:
        obj = kept.obj
        if kept.is_pending and self._is_paused and not kept.is_deleted:
            message = "The controller is paused: this begins when it goes on"
            self._reporting.post_event(subject_of(obj), NORMAL, "Paused", message)
            return
        if not kept.is_pending:
            # Others may have brought it further than our copy says.
            current = find(self._tools.cluster, ACTION_SETS, key.name, key.namespace)
            if current is None or current["metadata"]["uid"] != kept.uid:
                return
            if isinstance(keep(current), Ended):
                return
            obj = current
        writer = self._starter.writer_of(key, obj)
        try:
            planned = self._starter.plan(obj, kept.seen_at)
        except TransientError:
            raise
        except KanisterError as error:
            if isinstance(error, Forbidden) and not _is_ending(obj):
                self._wait_for_access(key, obj, writer, error)
            else:
                self._refuse(key, obj, writer, error)
            return
        if not planned.is_resumed and self._waits(key, kept, writer, planned):
            return
        active = self._starter.make_run(key, obj, writer, planned)
        with self._lock:
            self._active[key] = active
        active.run.begin(active.host)

    def _refuse(
        self, key: ObjectKey, obj: KubeObject, writer: StatusWriter, error: KanisterError
    ) -> None:
        message = error.message
        if isinstance(error, InvalidDocument):
            message = "; ".join(str(problem) for problem in error.problems)
        now = self._now()
        refused = refused_status(message, error.reason, now, getattr(error, "action", ""))
        before = read_valid_status(obj)
        if before is not None and before.state is State.RUNNING:
            refused = refused._replace(actions=_interrupted(before, message, error, now).actions)
            self._tidying.sweep(key, obj["metadata"]["uid"], before)
        if self._write_end(key, writer, refused):
            writer.remove_finalizer()
            self._reporting.tell_refused(subject_of(obj), refused, acts_of(obj))

    def _write_end(self, key: ObjectKey, writer: StatusWriter, status: Status) -> bool:
        try:
            writer.put(status)
        except KanisterError as error:
            seconds = self._queue.add_rate_limited(key)
            _LOG.warning(
                "The end of ActionSet %s cannot be written, next try in %g s: %s",
                key,
                seconds,
                error.message,
            )
            return False
        uid = self._store.get(key)
        with self._lock:
            if isinstance(uid, Live):
                self._ended[key] = uid.uid
        for follower in self._concurrency.leave(key):
            self._queue.add(follower)
        return True

    # Waiting for others

    def _waits(self, key: ObjectKey, kept: Live, writer: StatusWriter, planned: Planned) -> bool:
        """Say whether an ActionSet has to wait for others, and tell for which."""
        if kept.is_deleted or kept.is_suspended:
            # It holds nobody up, and is put into its queues when it goes on.
            return False
        queues = self._concurrency.queues_for(key, kept)
        if not queues:
            return False
        if not self._store.has_synced:
            self._queue.add_after(key, _LOOK_AGAIN_SECONDS / 4)
            return True
        waits = self._concurrency.waits_in(key)
        if waits is None:
            self._concurrency.stand(key, queues, kept.created_at, is_waiting=False)
            return self._has_gone(key, kept)
        queue, before = waits
        reason = "ConcurrencyKey" if queue.namespace else "Limit"
        self._tell_waiting(writer, planned, reason, queue.why_waiting(before))
        return True

    def _has_gone(self, key: ObjectKey, kept: Live) -> bool:
        """Return whether an ActionSet went while it was looked at; its followers go on then.

        Asked once it stands in its queues: what goes later leaves them by itself.
        """
        now = self._store.get(key)
        if isinstance(now, Live):
            return now.uid != kept.uid
        for follower in self._concurrency.leave(key):
            self._queue.add(follower)
        return True

    def _tell_waiting(
        self, writer: StatusWriter, planned: Planned, reason: str, message: str
    ) -> None:
        self._write_waiting(writer, planned.status, reason, message)

    def _wait_for_access(
        self, key: ObjectKey, obj: KubeObject, writer: StatusWriter, error: Forbidden
    ) -> None:
        """Keep an ActionSet waiting until its Blueprints and its parent can be read.

        A namespace that is deleted and created again lacks the controller's Roles at first.
        """
        status = read_valid_status(obj) or Status()
        message = f"{error.message}; grant this to the controller, then the ActionSet continues"
        if self._write_waiting(writer, status, "AccessMissing", message):
            self._reporting.post_event(subject_of(obj), WARNING, "AccessMissing", message)
        self._queue.add_rate_limited(key)

    def _write_waiting(
        self, writer: StatusWriter, status: Status, reason: str, message: str
    ) -> bool:
        """Write the condition Waiting; returns False if it is written already."""
        condition = status.condition(WAITING)
        if condition is not None and condition.message == message:
            return False
        waiting = Condition(WAITING, True, reason, message, self._now())
        conditions = without_condition(status, WAITING).conditions
        writer.put(status._replace(conditions=(*conditions, waiting)))
        return True

    # The end of the process

    def drain(self) -> bool:
        """Begin nothing new, and leave what can be taken up by another controller.

        Says whether all runs know: one that writes at this moment may be starting a phase.
        """
        self._is_draining = True
        return self._have_all(ActionSetRun.drain)

    def abort(self) -> None:
        """Leave everything as it is."""
        self._is_draining = True
        self._have_all(ActionSetRun.abort)

    def _have_all(self, act: Callable[[ActionSetRun], None]) -> bool:
        with self._lock:
            runs = [active.run for active in self._active.values()]
        have_acted = True
        for run in runs:
            with run.locked(_PATIENCE_SECONDS) as is_ours:
                if is_ours:
                    act(run)
                have_acted = have_acted and is_ours
        return have_acted

    @property
    def at_work(self) -> AtWork:
        """Say how much is at work at this moment, over all runs."""
        with self._lock:
            runs = [active.run for active in self._active.values()]
        counts = [run.at_work for run in runs]
        return AtWork(
            sum(count.phases for count in counts), sum(count.untouchable for count in counts)
        )

    @property
    def has_unreported_ends(self) -> bool:
        """Whether runs have come to an end that is still being reported."""
        with self._lock:
            return any(active.run.status.is_final for active in self._active.values())

    def _now(self) -> datetime:
        return self._tools.clock.now()


def _interrupted(status: Status, message: str, error: KanisterError, now: datetime) -> Status:
    """Say how the phases stand of a run that nobody can go on with."""
    for place in status.totals.running:
        failed = status.phase_at(place)._replace(
            state=State.FAILED, error=PhaseError(message, error.reason), completion_time=now
        )
        status = record_phase(status, place, failed)
    return status


def _is_ending(obj: KubeObject) -> bool:
    """Return whether an ActionSet is deleted or cancelled, so that it must not wait."""
    return bool(obj["metadata"].get("deletionTimestamp")) or spec_of(obj).get("cancel") is True
