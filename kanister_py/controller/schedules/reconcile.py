"""Reconciling a schedule: starting, skipping and replacing runs that are due.

Each pass reads the schedule from the API server and not from a watch, because a run must not
be started from an outdated status.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, Final, NamedTuple

from kanister_py.controller.machine.events import NORMAL, WARNING, subject_of
from kanister_py.controller.machine.metrics import REFUSED, SKIPPED, STARTED
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.work_loop import DONE, FAILED, PassResult
from kanister_py.controller.machine.writing import condition, write_status
from kanister_py.controller.schedules.retention import delete_backups
from kanister_py.core.actionsets.status import text_of_time
from kanister_py.core.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    InvalidDocument,
    NotFound,
    TransientError,
)
from kanister_py.core.kube.parts import namespace_of, status_of
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.decisions import Act, Decision, Reason, decide, earliest
from kanister_py.core.schedules.deletions import Plan, plan_deletions
from kanister_py.core.schedules.model import SCHEDULES, parse_schedule
from kanister_py.core.schedules.runs import Run, name_of_run, run_of, surplus_runs
from kanister_py.core.schedules.status import (
    RunReport,
    not_ready_condition,
    situation_of,
    status_after,
    why_not_ready,
)
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import KubeObject, find

_LOG: Final = logging.getLogger(__name__)

_SKIP_MESSAGES: Final = {
    Reason.MISSED: "Skipped the run at {time}: it was missed by more than startingDeadline",
    Reason.STILL_RUNNING: "Skipped the run at {time}: another run is still active",
}


class CreatedRun(NamedTuple):
    """A run that this process has created, and that the watch has not reported yet."""

    name: str
    uid: str


class ScheduleReconciler:
    """Reconciler of Schedules. `runs_of` and `deletions_of` return cached ActionSets."""

    def __init__(
        self,
        tools: PartTools,
        runs_of: Callable[[ObjectKey], Sequence[Run]],
        deletions_of: Callable[[ObjectKey], Sequence[Run]],
    ) -> None:
        self._cluster, self._clock = tools.cluster, tools.clock
        self._post_event, self._metrics = tools.post_event, tools.metrics
        self._runs_of = runs_of
        self._deletions_of = deletions_of
        self._lock = Lock()
        self._created: dict[ObjectKey, CreatedRun] = {}

    def forget(self, key: ObjectKey) -> None:
        """Delete the data and metrics of a schedule that is gone."""
        with self._lock:
            self._created.pop(key, None)
        self._metrics.forget_schedule(key.namespace, key.name)

    def has_created(self, key: ObjectKey, uid: str) -> bool:
        """Return whether this process created a run that the watch has not reported yet."""
        with self._lock:
            created = self._created.get(key)
            return created is not None and created.uid == uid

    def reconcile(self, key: ObjectKey) -> PassResult:
        """Start, skip or replace the run that is due; return when to reconcile again."""
        obj = find(self._cluster, SCHEDULES, key.name, key.namespace)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return DONE
        try:
            schedule = parse_schedule(obj)
        except InvalidDocument as error:
            return self._refuse(obj, error)
        self._metrics.begin_schedule(key.namespace, key.name)
        now = self._clock.now()
        runs, unseen = self._runs(key)
        is_running = bool(unseen) or any(run.is_active for run in runs)
        situation = situation_of(obj, schedule, now, is_running=is_running)
        decision = decide(situation)
        started = unseen
        if decision.act is Act.START and decision.time is not None:
            try:
                started = self._start(key, obj, decision.time)
            except TransientError:
                raise
            except ApiError as error:
                return self._fail(obj, error)
        elif decision.act is Act.REPLACE:
            self._cancel(obj, runs)
        deletions = self._deletions_of(key)
        plan = plan_deletions(runs, deletions, schedule.keep, schedule.zone, now)
        status = status_after(obj, situation, decision, RunReport(runs, started, plan))
        reason, why = why_not_ready(status, is_suspended=schedule.is_suspended)
        conditions = [
            condition("Ready", "False", reason, why)
            if reason
            else condition("Ready", "True", "Scheduled"),
            condition("Suspended", "True" if schedule.is_suspended else "False", "AsSaid"),
        ]
        if schedule.keep.has_rules:
            conditions.append(_retention(plan))
        write_status(self._cluster, self._clock, obj, conditions, status)
        self._report_not_ready(obj, reason, why)
        # Reported after the status is written. After a crash before, the next process does both.
        self._report(obj, decision, started)
        self._collect(surplus_runs(runs, schedule.history))
        waits = delete_backups(self._cluster, plan, subject_of(obj), self._post_event)
        requeue_at = earliest(decision.requeue_at, plan.requeue_at, now + waits if waits else None)
        if requeue_at is None:
            return DONE
        return PassResult(max(0.0, (requeue_at - now).total_seconds()))

    # Runs

    def _runs(self, key: ObjectKey) -> tuple[Sequence[Run], str]:
        """Return the cached runs, and the name of a created run that is not cached yet."""
        runs = self._runs_of(key)
        with self._lock:
            created = self._created.get(key)
            if created is not None and any(run.uid == created.uid for run in runs):
                del self._created[key]
                created = None
        if created is None:
            return runs, ""
        # The watch reports most runs within a moment. This one may be deleted already.
        current = find(self._cluster, ACTION_SETS, created.name, key.namespace)
        if current is not None and current["metadata"]["uid"] == created.uid:
            return runs, created.name
        self.forget(key)
        return runs, ""

    def _start(self, key: ObjectKey, obj: KubeObject, time: datetime) -> str:
        """Create the ActionSet for a due time, unless it exists; return its name."""
        name = name_of_run(key.name, obj["metadata"]["uid"], time)
        try:
            actionset = self._cluster.create(run_of(obj, name, time))
        except AlreadyExists:
            # A process created it and died before writing the status, or another one is active.
            existing = find(self._cluster, ACTION_SETS, name, key.namespace)
            if existing is None:
                return ""
            actionset = existing
        with self._lock:
            self._created[key] = CreatedRun(name, actionset["metadata"]["uid"])
        return name

    def _cancel(self, obj: KubeObject, runs: Sequence[Run]) -> None:
        for run in runs:
            if run.is_active and not run.is_cancelled:
                self._patch(run, {"spec": {"cancel": True}})
                message = f"Cancelled {run.name}; the next run starts when it has ended"
                self._post_event(subject_of(obj), NORMAL, "Replaced", message)

    def _collect(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self._patch(run, None)

    def _patch(self, run: Run, patch: dict[str, object] | None) -> None:
        """Patch an ActionSet, or delete it without a patch. It may be gone already."""
        namespace = run.namespace
        try:
            if patch is None:
                self._cluster.delete(ACTION_SETS, run.name, namespace=namespace, uid=run.uid)
            else:
                self._cluster.patch(ACTION_SETS, run.name, patch, namespace=namespace)
        except (NotFound, Conflict):
            return

    # Events and conditions

    def _refuse(self, obj: KubeObject, error: InvalidDocument) -> PassResult:
        why = "; ".join(f"{problem.path}: {problem.message}" for problem in error.problems)
        if status_of(obj).get("observedGeneration") != obj["metadata"].get("generation"):
            self._post_event(subject_of(obj), WARNING, "Invalid", why)
        status = {**status_of(obj), "observedGeneration": obj["metadata"].get("generation", 0)}
        status.pop("nextTimes", None)
        refused = condition("Ready", "False", "Invalid", why)
        write_status(self._cluster, self._clock, obj, [refused], status)
        return DONE

    def _report_not_ready(self, obj: KubeObject, reason: str, message: str) -> None:
        """Post an event if a schedule stops being ready, or is not ready for another reason."""
        before = not_ready_condition(obj)
        if reason and (before.get("reason"), before.get("message")) != (reason, message):
            kind = NORMAL if reason == "Suspended" else WARNING
            self._post_event(subject_of(obj), kind, reason, message)

    def _fail(self, obj: KubeObject, error: ApiError) -> PassResult:
        """Report that the cluster refuses the ActionSet, which is retried with growing delays."""
        message = f"The ActionSet cannot be created: {error.message}"
        self._count(obj, REFUSED)
        refused = condition("Ready", "False", error.reason, message)
        if write_status(self._cluster, self._clock, obj, [refused]) is not obj:
            self._post_event(subject_of(obj), WARNING, error.reason, message)
        return FAILED

    def _count(self, obj: KubeObject, outcome: str) -> None:
        self._metrics.count_time(namespace_of(obj), obj["metadata"]["name"], outcome)

    def _report(self, obj: KubeObject, decision: Decision, started: str) -> None:
        if decision.act is Act.START:
            self._count(obj, STARTED)
            _LOG.info("Schedule %s/%s runs %s", namespace_of(obj), obj["metadata"]["name"], started)
            message = f"Created ActionSet {started}"
            self._post_event(subject_of(obj), NORMAL, "Started", message)
        elif decision.act is Act.SKIP and decision.time is not None:
            self._count(obj, SKIPPED)
            message = _SKIP_MESSAGES[decision.reason].format(time=text_of_time(decision.time))
            self._post_event(subject_of(obj), WARNING, str(decision.reason), message)


def _retention(plan: Plan) -> dict[str, Any]:
    if not plan.failed:
        return condition("Retention", "True", "AsSaid")
    failed = min(plan.failed, key=lambda backup: backup.name)
    message = f"{failed.name} could not delete {failed.parent}: {failed.error}; retrying"
    return condition("Retention", "False", "DeleteFailed", message)
