"""The part of the controller that runs ActionSets: its watches, queues, threads and settings."""

from __future__ import annotations

import logging
from threading import Lock
from typing import Final
from weakref import WeakValueDictionary

from kanister_py.controller.actionsets.concurrency import Concurrency
from kanister_py.controller.actionsets.failure_notices import FailureNotices
from kanister_py.controller.actionsets.planner import Planner
from kanister_py.controller.actionsets.projection import (
    CachedActionSet,
    Ended,
    Live,
    cached_form,
    record_end,
)
from kanister_py.controller.actionsets.reconcile import ActionSetReconciler
from kanister_py.controller.actionsets.reporting import RunReporting
from kanister_py.controller.actionsets.starting import RunStarter
from kanister_py.controller.actionsets.status import StatusWriters
from kanister_py.controller.actionsets.tidying import Tidying, parents_of_active, surplus
from kanister_py.controller.actionsets.watched_namespaces import WatchedNamespaces
from kanister_py.controller.machine.events import NORMAL, Subject, subject_of
from kanister_py.controller.machine.logs import PhaseLines
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.periodic import PeriodicTask
from kanister_py.controller.machine.work_loop import WorkLoop
from kanister_py.controller.settings import ControllerSettings
from kanister_py.core.actionsets.partitions import partition_of
from kanister_py.core.kube.parts import annotations_of
from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS, NAMESPACES
from kanister_py.executor.confinement import ReferenceGrants, confined
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.watch_cache import ObjectKey, WatchCache
from kanister_py.executor.watching import SharedWatches
from kanister_py.executor.workers import Workers
from kanister_py.gotemplate.effects import Effects
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.object_store import ObjectStores

_LOG: Final = logging.getLogger(__name__)
_COLLECT_SECONDS: Final = 30.0
SERVICE_ACCOUNT_ANNOTATION: Final = "kanister-py.io/service-account"


class ActionSets:
    """Part of the controller that runs ActionSets while this process is the leader."""

    def __init__(
        self,
        tools: PartTools,
        functions: FunctionSource,
        effects: Effects,
        settings: ControllerSettings,
        lines: PhaseLines,
        stores: ObjectStores | None = None,
        notices: FailureNotices | None = None,
    ) -> None:
        cluster, clock = tools.cluster, tools.clock
        self._notices = notices
        self._tools = tools
        self._settings = settings
        self._effects = effects
        self._stores = stores
        self._workers = Workers(settings.workers)
        self._shares: WeakValueDictionary[str, Workers] = WeakValueDictionary()
        """The workers of each namespace with active runs."""
        self._most_of_namespace = settings.workers_per_namespace
        if not self._most_of_namespace and len(settings.namespaces) != 1:
            # Functions that hang in one namespace must not take the workers of the others.
            self._most_of_namespace = settings.workers * 3 // 4
        self._lock = Lock()
        self._watches = SharedWatches(cluster, clock)
        self._namespaces = WatchedNamespaces(cluster, clock)
        self._grants = ReferenceGrants(cluster, clock)
        watched = settings.namespaces or ("",)
        self.store: WatchCache[CachedActionSet] = WatchCache(
            cluster=cluster,
            clock=clock,
            resource=ACTION_SETS,
            keep=self._cached_form,
            # The reconciler needs the store, so it is created later.
            on_change=lambda key, old, new: self.reconciler.on_change(key, old, new),  # noqa: PLW0108 # see above
            namespaces=watched,
            on_error=tools.metrics.count_api_error,
        )
        self.store.notify_by_age(
            lambda cached: cached.created_at if isinstance(cached, Live) else cached.ended_at
        )
        self._blueprints: WatchCache[Subject] = WatchCache(
            cluster=cluster,
            clock=clock,
            resource=BLUEPRINTS,
            keep=subject_of,
            on_change=self._on_blueprint,
            namespaces=watched,
            on_error=tools.metrics.count_api_error,
        )
        has_subresource = cluster.describe(ACTION_SETS).has_status
        if not has_subresource:
            _LOG.warning(
                "These definitions are Kanister's own: additions to the status go into the "
                "annotation kanister-py.io/status, and funcVersion, if, timeout and retry of "
                "phases are lost when a Blueprint is stored; `kanister-py crds` brings ours"
            )
        self._passes = WorkLoop[ObjectKey]("ActionSet", tools, threads=settings.passes)
        self._chores = WorkLoop[ObjectKey]("Chore", tools)
        writers = StatusWriters(
            cluster,
            clock,
            tools.check_leadership,
            has_subresource=has_subresource,
            partition=settings.partition,
        )
        queue = self._passes.queue
        reporting = RunReporting(tools.post_event, tools.metrics, lines, functions.registry)
        planner = Planner(
            cluster,
            clock,
            functions,
            allows_other_namespaces=settings.allows_other_namespaces,
            impersonates=settings.impersonates,
        )
        self.tidying = Tidying(
            tools, writers, self.store, self._chores.queue, self._watches.refused
        )
        self.reconciler = ActionSetReconciler(
            tools,
            self.store,
            queue,
            self.tidying,
            Concurrency(settings.limits),
            RunStarter(tools, queue, planner, functions, reporting, writers, self._surroundings),
            reporting,
            is_paused=settings.is_paused,
        )
        self.tidying.is_active = self.reconciler.is_active
        self._collection = PeriodicTask(
            clock,
            "the collection of ActionSets",
            self.collect_surplus,
            first_seconds=_COLLECT_SECONDS,
            every_seconds=_COLLECT_SECONDS,
        )
        self._show_gauges()

    def _cached_form(self, obj: KubeObject) -> CachedActionSet | None:
        """Return the cached form of an ActionSet of this partition, and report its end."""
        if partition_of(obj) != self._settings.partition:
            return None
        cached = cached_form(obj, self._tools.clock)
        if isinstance(cached, Ended):
            had_failed = record_end(obj, cached, self._tools.metrics)
            if self._notices is not None:
                # The first list is not in order of time: an earlier failure may be newer.
                has_order = self.store.has_synced
                self._notices.on_end(obj, cached, was_failing=had_failed and has_order)
        return cached

    def _surroundings(self, namespace: str, service_account: str) -> Surroundings:
        """Return the surroundings of a run, confined unless it is in the home namespace.

        It acts as the ServiceAccount of its ActionSet or else of its namespace, if one is named.
        It then reads everything as that account, and not from caches that were filled with the
        controller's rights.
        """
        surroundings = self._shared_surroundings(namespace)
        account = service_account or self._account_of(namespace)
        if account:
            acting = self._tools.cluster.acting_as(f"system:serviceaccount:{namespace}:{account}")
            surroundings = surroundings._replace(
                cluster=acting, facts=None, service_account=account
            )
        if namespace == self._settings.home:
            return surroundings
        confinement = self._settings.confinement._replace(namespace=namespace)
        return confined(surroundings, confinement, self._grants)

    def _account_of(self, namespace: str) -> str:
        """Return the ServiceAccount in the annotation of a namespace; empty if there is none."""
        if not self._settings.impersonates:
            return ""
        obj = self._namespaces.get(NAMESPACES, namespace)
        return str(annotations_of(obj).get(SERVICE_ACCOUNT_ANNOTATION) or "")

    def _shared_surroundings(self, namespace: str) -> Surroundings:
        workers: Workers = self._workers
        if self._most_of_namespace:
            with self._lock:
                share = self._shares.get(namespace)
                if share is None:
                    share = self._workers.part(self._most_of_namespace)
                    self._shares[namespace] = share
            workers = share
        return Surroundings(
            self._tools.cluster,
            self._tools.clock,
            workers,
            self._watches,
            self._effects,
            checks_access=self._settings.checks_access,
            stores=self._stores,
            # Use the cache only for facts of templates. Phases change Namespaces and wait for the
            # result, so they need current ones.
            facts=self._namespaces.as_cluster(),
        )

    def _show_gauges(self) -> None:
        watch = self._tools.metrics.watch
        watch("kanister_py_phases_queued", lambda: float(self._workers.queued))
        watch("kanister_py_active_runs", lambda: float(self.reconciler.active_runs))
        watch("kanister_py_oldest_run_seconds", self._oldest_run_seconds)
        open_ones = (self._watches, self.store, self._blueprints)
        watch("kanister_py_open_watches", lambda: float(sum(e.open_watches for e in open_ones)))

    def _oldest_run_seconds(self) -> float:
        began = [
            cached.created_at
            for _, cached in self.store.items()
            if isinstance(cached, Live) and not cached.is_suspended
        ]
        return (self._tools.clock.now() - min(began)).total_seconds() if began else 0.0

    def start(self) -> None:
        if self._notices is not None:
            self._notices.start()
        self._blueprints.start()
        self.store.start()
        self._passes.start(self.reconciler.reconcile)
        self._chores.start(self.tidying.tidy)
        if self._settings.keep_newest is not None:
            self._collection.start()

    def collect_surplus(self) -> None:
        """Delete ended ActionSets beyond the newest ones of each Blueprint."""
        newest = self._settings.keep_newest
        if newest is None or not self.store.has_synced:
            return
        items = self.store.items()
        cached = dict(items)
        for key in surplus(cached, newest, parents_of_active(items)):
            self.tidying.delete(key, cached[key].uid)

    def _on_blueprint(self, key: ObjectKey, old: Subject | None, new: Subject | None) -> None:
        if self._settings.partition:
            # Every partition watches all Blueprints. Only the unnamed partition posts events.
            return
        if old is None and new is not None and self._blueprints.has_synced:
            self._tools.post_event(new, NORMAL, "Added", f"Added blueprint {key.name}")

    @property
    def is_settled(self) -> bool:
        return (
            self.store.has_synced
            and self._passes.queue.is_idle
            and self._chores.queue.is_idle
            and self.reconciler.active_runs == 0
        )

    @property
    def trouble(self) -> str:
        if not self.store.has_synced:
            return self.store.trouble or "has not listed all ActionSets yet"
        return self.store.trouble or self._blueprints.trouble

    def close(self) -> None:
        if self._notices is not None:
            self._notices.close()
        self._collection.close()
        self._passes.close()
        self._chores.close()
        self.reconciler.abort()
        self.store.close()
        self._blueprints.close()
        self._namespaces.close()
