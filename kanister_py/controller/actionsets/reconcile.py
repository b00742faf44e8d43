"""Reconciling an ActionSet.

A run can be resumed from the object's status, so a pass needs no state of earlier passes.
In addition to its spec, these keys of an ActionSet control a run:

    kanister-py.io/concurrency-key   (annotation or label) runs with the same key run one at a
                                     time, in order
    kanister-py.io/from              (annotation) the ActionSet that created the artifacts; it
                                     is not deleted before this one has ended
    kanister-py.io/retry-of          (annotation) repeats that ActionSet of the same namespace.
                                     Completed phases are skipped and keep their outputs, up to
                                     the phase in `kanister-py.io/retry-from`
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
    CachedActionSet,
    Ended,
    Live,
    action_labels_of,
    cached_form,
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
from kanister_py.executor.run.run import ActionSetRun, RunningPhases
from kanister_py.executor.watch_cache import ObjectKey, WatchCache
from kanister_py.ports.cluster import KubeObject, find

_LOG: Final = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_LOCK_TIMEOUT_SECONDS: Final = 0.2


class ActionSetReconciler:
    """Reconciler that starts the runs of ActionSets and applies changes of their specs."""

    def __init__(
        self,
        tools: PartTools,
        store: WatchCache[CachedActionSet],
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

    # Changes that the watch reports

    def on_change(
        self, key: ObjectKey, old: CachedActionSet | None, new: CachedActionSet | None
    ) -> None:
        """Queue an ActionSet that has changed, and ActionSets that may start because of that."""
        concurrency = self._concurrency
        if isinstance(new, Live):
            queues = concurrency.queues_for(key, new)
            if queues and not (new.is_pending and new.is_suspended):
                concurrency.enter(key, queues, new.created_at, is_waiting=new.is_pending)
            with self._lock:
                active = self._active.get(key)
            # Most changes of an ActionSet are writes of its own run.
            if active is None or active.needs_update(new):
                self._queue.add(key)
            return
        with self._lock:
            self._ended.pop(key, None)
            active = self._active.get(key)
        for follower in concurrency.leave(key):
            self._queue.add(follower)
        if active is not None and active.needs_update(new):
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
        """Start, update or finish the run of an ActionSet."""
        cached = self._store.get(key)
        with self._lock:
            active = self._active.get(key)
        if active is not None:
            self._attend(key, active, cached)
        elif isinstance(cached, Live) and not self._is_draining:
            with self._lock:
                has_ended = self._ended.get(key) == cached.uid
            if not has_ended:
                self._begin(key, cached)

    # Active runs

    def is_active(self, key: ObjectKey) -> bool:
        with self._lock:
            return key in self._active

    @property
    def active_runs(self) -> int:
        with self._lock:
            return len(self._active)

    def _attend(self, key: ObjectKey, active: ActiveRun, cached: CachedActionSet | None) -> None:
        run = active.run
        is_done = run.is_done
        if not is_done and active.needs_update(cached):
            with run.locked(_LOCK_TIMEOUT_SECONDS) as is_ours:
                if not is_ours:
                    # The run is writing its status. Do not block this thread in the meantime.
                    self._queue.add_after(key, _RETRY_SECONDS)
                    return
                active.update(cached)
            is_done = run.is_done
        if is_done:
            # The status is final before all reports of the end are made. The run holds its lock
            # until then, so wait for the lock once.
            with run.locked(_LOCK_TIMEOUT_SECONDS) as is_ours:
                pass
            if is_ours:
                self._retire(key, active)
            else:
                self._queue.add_after(key, _RETRY_SECONDS)

    def _retire(self, key: ObjectKey, active: ActiveRun) -> None:
        run = active.run
        if not run.status.is_final:
            self._leave(key, active)
            return
        if active.is_resumed:
            self._tidying.sweep(key, active.uid, run.status)
        active.writer.remove_finalizer()
        self._forget(key, active)

    def _forget(self, key: ObjectKey, active: ActiveRun) -> None:
        """Remove a run that must not be resumed, and queue the ActionSets that waited for it."""
        with self._lock:
            self._ended[key] = active.uid
            self._active.pop(key, None)
        cached = self._store.get(key)
        if cached is None:
            self._queue.drop(key)
        if not isinstance(cached, Live) or cached.uid != active.uid:
            # The watch has already reported the end or the deletion.
            with self._lock:
                self._ended.pop(key, None)
            if isinstance(cached, Live):
                self._queue.add(key)
        for follower in self._concurrency.leave(key):
            self._queue.add(follower)
        self._queue.forget(key)

    def _leave(self, key: ObjectKey, active: ActiveRun) -> None:
        """Remove a run that cannot continue in this process.

        If this process is still the leader, it resumes the run later from the written status.
        """
        run, queue = active.run, self._queue
        error = run.error
        if self._is_draining or not self._may_act():
            with self._lock:
                self._active.pop(key, None)
            return
        if run.is_at_work:
            # An attempt must not be started twice, not even by the same process.
            queue.add_after(key, _RETRY_SECONDS)
            return
        if active.writer.is_gone:
            _LOG.info("The run of ActionSet %s stops, because the ActionSet was deleted", key)
            self._forget(key, active)
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
            "ActionSet %s cannot continue, retrying in %g s: %s",
            key,
            seconds,
            error.message,
            extra=fields_of(namespace=key.namespace, actionSet=key.name, reason=error.reason),
        )

    def _end_unwritable(self, key: ObjectKey, active: ActiveRun, error: KanisterError) -> None:
        """End a run whose status the cluster refuses, with a status that it accepts."""
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
                self._reporting.report_refused(active.subject, status, active.action_labels)
                return

    def _may_act(self) -> bool:
        try:
            self._tools.check_leadership()
        except LeadershipLost:
            return False
        return True

    # Starting runs

    def _begin(self, key: ObjectKey, cached: Live) -> None:
        obj = cached.obj
        if cached.is_pending and self._is_paused and not cached.is_deleted:
            message = "The controller is paused: the ActionSet starts when it is resumed"
            self._reporting.post_event(subject_of(obj), NORMAL, "Paused", message)
            return
        if not cached.is_pending:
            # Another controller may have written a newer status than the cached one.
            current = find(self._tools.cluster, ACTION_SETS, key.name, key.namespace)
            if current is None or current["metadata"]["uid"] != cached.uid:
                return
            if isinstance(cached_form(current), Ended):
                return
            obj = current
        writer = self._starter.writer_of(key, obj)
        try:
            planned = self._starter.plan(obj, cached.seen_at)
        except TransientError:
            raise
        except KanisterError as error:
            if isinstance(error, Forbidden) and not _is_ending(obj):
                self._wait_for_access(key, obj, writer, error)
            else:
                self._refuse(key, obj, writer, error)
            return
        if not planned.is_resumed and self._waits(key, cached, writer, planned):
            return
        active = self._starter.make_run(key, obj, writer, planned)
        with self._lock:
            self._active[key] = active
        now = self._store.get(key)
        if now is None or now.uid != active.uid:
            # When the deletion was reported, there was no run yet that could be cancelled.
            self._queue.add(key)
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
            self._reporting.report_refused(subject_of(obj), refused, action_labels_of(obj))

    def _write_end(self, key: ObjectKey, writer: StatusWriter, status: Status) -> bool:
        try:
            writer.put(status)
        except KanisterError as error:
            seconds = self._queue.add_rate_limited(key)
            _LOG.warning(
                "Cannot write the final status of ActionSet %s, retrying in %g s: %s",
                key,
                seconds,
                error.message,
            )
            return False
        cached = self._store.get(key)
        with self._lock:
            if isinstance(cached, Live):
                self._ended[key] = cached.uid
        for follower in self._concurrency.leave(key):
            self._queue.add(follower)
        return True

    # Waiting for other ActionSets and for permissions

    def _waits(self, key: ObjectKey, cached: Live, writer: StatusWriter, planned: Planned) -> bool:
        """Return whether an ActionSet has to wait for others. If so, its status says for which."""
        if cached.is_deleted or cached.is_suspended:
            # It must not block others. A suspended one enters its queues when it is resumed.
            return False
        queues = self._concurrency.queues_for(key, cached)
        if not queues:
            return False
        if not self._store.has_synced:
            self._queue.add_after(key, _RETRY_SECONDS / 4)
            return True
        waits = self._concurrency.waits_in(key)
        if waits is None:
            self._concurrency.enter(key, queues, cached.created_at, is_waiting=False)
            return self._is_gone(key, cached)
        queue, before = waits
        reason = "ConcurrencyKey" if queue.namespace else "Limit"
        self._write_waiting(writer, planned.status, reason, queue.why_waiting(before))
        return True

    def _is_gone(self, key: ObjectKey, cached: Live) -> bool:
        """Return whether an ActionSet was deleted or has ended during this pass.

        If so, it is removed from its queues. `on_change` handles a later deletion.
        """
        now = self._store.get(key)
        if isinstance(now, Live):
            return now.uid != cached.uid
        for follower in self._concurrency.leave(key):
            self._queue.add(follower)
        return True

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
        """Write the condition Waiting. Returns False if the status already has it."""
        condition = status.condition(WAITING)
        if condition is not None and condition.message == message:
            return False
        waiting = Condition(WAITING, True, reason, message, self._now())
        conditions = without_condition(status, WAITING).conditions
        writer.put(status._replace(conditions=(*conditions, waiting)))
        return True

    # The end of the process

    def drain(self) -> bool:
        """Start nothing new, and stop the runs that another controller can resume.

        Returns False if a run was writing at this moment, so that it may still start a phase.
        """
        self._is_draining = True
        return self._for_all_runs(ActionSetRun.drain)

    def abort(self) -> None:
        """Stop all runs without recording anything, so that another process can resume them."""
        self._is_draining = True
        self._for_all_runs(ActionSetRun.abort)

    def _for_all_runs(self, act: Callable[[ActionSetRun], None]) -> bool:
        with self._lock:
            runs = [active.run for active in self._active.values()]
        is_complete = True
        for run in runs:
            with run.locked(_LOCK_TIMEOUT_SECONDS) as is_ours:
                if is_ours:
                    act(run)
                is_complete = is_complete and is_ours
        return is_complete

    @property
    def at_work(self) -> RunningPhases:
        """The number of phases that are running at this moment, over all runs."""
        with self._lock:
            runs = [active.run for active in self._active.values()]
        counts = [run.at_work for run in runs]
        return RunningPhases(
            sum(count.phases for count in counts), sum(count.untouchable for count in counts)
        )

    @property
    def has_unreported_ends(self) -> bool:
        """Whether the end of a run is still being reported."""
        with self._lock:
            return any(active.run.status.is_final for active in self._active.values())

    def _now(self) -> datetime:
        return self._tools.clock.now()


def _interrupted(status: Status, message: str, error: KanisterError, now: datetime) -> Status:
    """Return the status of a run that cannot be resumed: its running phases have failed."""
    for place in status.totals.running:
        failed = status.phase_at(place)._replace(
            state=State.FAILED, error=PhaseError(message, error.reason), completion_time=now
        )
        status = record_phase(status, place, failed)
    return status


def _is_ending(obj: KubeObject) -> bool:
    """Return whether an ActionSet is deleted or cancelled, so that it must not wait."""
    return bool(obj["metadata"].get("deletionTimestamp")) or spec_of(obj).get("cancel") is True
