"""The part of the controller that creates ActionSets when they are due.

Between its due times a schedule costs a timer and a few dozen bytes, because its spec is read
again when it is due.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Any, Final, NamedTuple

from kanister_py.controller.actionsets.projection import action_labels_of
from kanister_py.controller.machine.metrics import ScheduleMetrics
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.periodic import PeriodicTask
from kanister_py.controller.machine.work_loop import PassResult, WorkLoop
from kanister_py.controller.schedules.reconcile import ScheduleReconciler
from kanister_py.core.actionsets.creation import SCHEDULE_LABEL
from kanister_py.core.actionsets.partitions import labelled_partition
from kanister_py.core.actionsets.status import parse_time
from kanister_py.core.errors import Forbidden, InvalidDocument, NotFound
from kanister_py.core.kube.parts import condition_of, namespace_of, spec_of, status_of
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.decisions import Act, decide
from kanister_py.core.schedules.model import SCHEDULES, Schedule, parse_schedule
from kanister_py.core.schedules.runs import RETENTION_LABEL, Run, read_run
from kanister_py.core.schedules.status import (
    created_at,
    is_suspended,
    longest_interval,
    not_ready_condition,
    situation_of,
)
from kanister_py.executor.watch_cache import ObjectKey, WatchCache
from kanister_py.ports.cluster import KubeObject

_LOG: Final = logging.getLogger(__name__)

_THREADS: Final = 2
_KIND_CHECK_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 2.0
_CLOCK_CHECK_SECONDS: Final = 10.0
_CLOCK_IS_SET_SECONDS: Final = 0.5
_NOT_SYNCED_SECONDS: Final = 0.2


class ScheduleEntry(NamedTuple):
    """Cached time at which a schedule is reconciled next; at once if `is_new`."""

    uid: str
    generation: int
    requeue_at: datetime | None = None
    is_new: bool = False


class RunsBySchedule:
    """Cached ActionSets by the schedule that they belong to."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: dict[ObjectKey, dict[str, Run]] = {}

    def take(self, schedule: ObjectKey, name: str, run: Run | None) -> None:
        with self._lock:
            runs = self._runs.setdefault(schedule, {})
            runs.pop(name, None)
            if run is not None:
                runs[name] = run
            elif not runs:
                del self._runs[schedule]

    def of(self, schedule: ObjectKey) -> Sequence[Run]:
        with self._lock:
            return tuple(self._runs.get(schedule, {}).values())


class Schedules:
    """Part of the controller that runs Schedules.

    If the kind does not exist, or may not be read, it is checked again every minute.
    """

    def __init__(self, tools: PartTools, namespaces: Sequence[str], partition: str = "") -> None:
        cluster, clock = tools.cluster, tools.clock
        self._cluster = cluster
        self._clock = clock
        self._partition = partition
        self._metrics = tools.metrics
        watched = tuple(namespaces) or ("",)
        self._namespaces = watched
        self._lock = Lock()
        self._is_watching = False
        self._has_begun = False
        self._logged = ""
        self._seen_runs = RunsBySchedule()
        self._seen_deletions = RunsBySchedule()
        self.store: WatchCache[ScheduleEntry] = WatchCache(
            cluster=cluster,
            clock=clock,
            resource=SCHEDULES,
            keep=self._entry_of,
            on_change=self._on_schedule,
            namespaces=watched,
            on_error=tools.metrics.count_api_error,
        )
        self._runs, self._deletions = (
            WatchCache[Run](
                cluster=cluster,
                clock=clock,
                resource=ACTION_SETS,
                keep=read_run,
                on_change=partial(self._on_run, seen),
                namespaces=watched,
                on_error=tools.metrics.count_api_error,
                label_selector=label,
            )
            for label, seen in (
                (SCHEDULE_LABEL, self._seen_runs),
                (RETENTION_LABEL, self._seen_deletions),
            )
        )
        self._loop = WorkLoop[ObjectKey]("Schedule", tools, threads=_THREADS)
        self._reconciler = ScheduleReconciler(tools, self._seen_runs.of, self._seen_deletions.of)
        self._beginning = PeriodicTask(
            clock=clock,
            name="the check for the kind Schedule",
            act=self._begin,
            every_seconds=_KIND_CHECK_SECONDS,
            retry_seconds=_RETRY_SECONDS,
        )
        self._clock_offset = self._offset()
        self._clock_watch = PeriodicTask(
            clock=clock,
            name="the check of the clock",
            act=self._check_clock,
            first_seconds=_CLOCK_CHECK_SECONDS,
            every_seconds=_CLOCK_CHECK_SECONDS,
        )

    # Start and close

    def start(self) -> None:
        self._beginning.start(at_once=True)
        self._clock_watch.start()
        self._loop.start(self._reconcile)

    def close(self) -> None:
        self._beginning.close()
        self._clock_watch.close()
        self._loop.close()
        for cache in self._stores:
            cache.close()

    def _begin(self) -> None:
        with self._lock:
            if self._is_watching:
                return
        try:
            self._cluster.list(SCHEDULES, namespace=self._namespaces[0], limit=1)
        except (NotFound, Forbidden) as error:
            if error.message != self._logged:
                _LOG.warning("Schedules do not run here: %s", error.message)
            self._logged = error.message
        else:
            with self._lock:
                self._is_watching = True
            for cache in self._stores:
                cache.start()
        self._has_begun = True

    @property
    def _stores(self) -> tuple[WatchCache[Any], ...]:
        return self._runs, self._deletions, self.store

    @property
    def is_settled(self) -> bool:
        if not self._is_watching:
            return self._has_begun
        return all(cache.has_synced for cache in self._stores) and self._loop.queue.is_idle

    @property
    def trouble(self) -> str:
        troubles = [cache.trouble for cache in self._stores if cache.trouble]
        return troubles[0] if troubles and self._is_watching else ""

    # Changes that the watches report

    def _entry_of(self, obj: KubeObject) -> ScheduleEntry | None:
        """Return the time at which to reconcile a schedule; its spec is not cached."""
        if labelled_partition(obj) != self._partition:
            return None
        metadata, status = obj["metadata"], status_of(obj)
        uid, generation = metadata["uid"], metadata.get("generation", 0)
        is_unseen = status.get("observedGeneration") != generation
        now = self._clock.now()
        try:
            schedule = parse_schedule(obj)
        except InvalidDocument:
            self._show(obj, None, now)
            return ScheduleEntry(uid, generation, is_new=is_unseen)
        self._show(obj, schedule, now)
        if is_unseen:
            return ScheduleEntry(uid, generation, is_new=True)
        decision = decide(situation_of(obj, schedule, now))
        is_new = (
            decision.act is not Act.REST
            or is_suspended(obj) is not schedule.is_suspended
            or bool((status.get("backups") or {}).get("leaving"))
        )
        return ScheduleEntry(uid, generation, decision.requeue_at, is_new=is_new)

    def _show(self, obj: KubeObject, schedule: Schedule | None, now: datetime) -> None:
        """Set the metrics of a schedule; without `schedule` it is invalid."""
        metadata, spec = obj["metadata"], spec_of(spec_of(obj).get("template") or {})
        acts = action_labels_of({"metadata": {"namespace": namespace_of(obj)}, "spec": spec})
        interval = longest_interval(schedule, created_at(obj, now), now) if schedule else None
        succeeded = parse_time(status_of(obj).get("lastSuccessfulTime")) or created_at(obj, now)
        self._metrics.show_schedule(
            namespace_of(obj),
            metadata["name"],
            ScheduleMetrics(
                str(not_ready_condition(obj).get("reason") or "") if schedule else "Invalid",
                succeeded.timestamp(),
                tuple(dict.fromkeys(act.object for act in acts)),
                interval.total_seconds() if interval is not None else None,
                condition_of(obj, "Retention").get("status") == "False",
            ),
        )

    def _on_schedule(
        self, key: ObjectKey, old: ScheduleEntry | None, new: ScheduleEntry | None
    ) -> None:
        if new is None:
            self._reconciler.forget(key)
        elif new != old:
            self._queue(key, new)

    def _queue(self, key: ObjectKey, entry: ScheduleEntry) -> None:
        if entry.is_new:
            self._loop.queue.add(key)
        elif entry.requeue_at is not None:
            left = (entry.requeue_at - self._clock.now()).total_seconds()
            self._loop.queue.add_after(key, left)

    def _on_run(
        self, seen: RunsBySchedule, key: ObjectKey, old: Run | None, new: Run | None
    ) -> None:
        run = new or old
        if run is None or not run.schedule:
            return
        schedule = ObjectKey(key.namespace, run.schedule)
        seen.take(schedule, key.name, new)
        if old is None and new is not None and new.ended is None:
            # A run that this process created is in the status already.
            is_news = not self._reconciler.has_created(schedule, new.uid)
        else:
            is_news = (
                old is None
                or new is None
                or (old.ended, old.holds_artifacts) != (new.ended, new.holds_artifacts)
            )
        if is_news and self.store.get(schedule) is not None:
            self._loop.queue.add(schedule)

    def _reconcile(self, key: ObjectKey) -> PassResult | None:
        if not (self._runs.has_synced and self._deletions.has_synced):
            # An active run that is not in the cache yet would be started a second time.
            self._loop.queue.add_after(key, _NOT_SYNCED_SECONDS)
            return None
        return self._reconciler.reconcile(key)

    # Changes of the clock

    def _offset(self) -> timedelta:
        return timedelta(seconds=self._clock.now().timestamp() - self._clock.monotonic())

    def _check_clock(self) -> None:
        """Recompute the delays of all schedules after the clock was set."""
        offset = self._offset()
        if abs((offset - self._clock_offset).total_seconds()) < _CLOCK_IS_SET_SECONDS:
            return
        self._clock_offset = offset
        _LOG.info("The clock was set: recomputing the delays of all schedules")
        for key, entry in self.store.items():
            self._queue(key, entry)
