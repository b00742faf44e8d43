"""Compositions: the part of the controller for composite resources and their functions.

Definitions, compositions, functions, composite resources and claims share one work queue and
its worker threads. They read from informer caches. Dependencies between objects are tracked
in memory only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kanister_py.controller.compositions.changes import (
    ChangeDispatcher,
    CompositionChanges,
    FunctionChanges,
    KindChanges,
)
from kanister_py.controller.compositions.collection import collect_revisions
from kanister_py.controller.compositions.composite_worker import CompositeWorker, Outages
from kanister_py.controller.compositions.composition_index import CompositionIndex
from kanister_py.controller.compositions.composition_users import CompositionUsers
from kanister_py.controller.compositions.dependency_tracker import DependencyTracker
from kanister_py.controller.compositions.pipelines import ComposedWithStatus, PipelineRunner
from kanister_py.controller.compositions.readiness import Readiness
from kanister_py.controller.compositions.resources import CompositeReconciler
from kanister_py.controller.compositions.revisions import reconcile_composition
from kanister_py.controller.compositions.selection import CompositionSelector
from kanister_py.controller.compositions.served_kinds import ServedKinds
from kanister_py.controller.compositions.tasks import Kind, Role, Task
from kanister_py.controller.compositions.valid_pipeline import reconcile_composition_revision
from kanister_py.controller.compositions.worker_limits import WorkerLimits
from kanister_py.controller.functions.client_certificate import write_client_certificate
from kanister_py.controller.functions.packages import FunctionReconciler
from kanister_py.controller.functions.revision_registry import FunctionRevisionRegistry
from kanister_py.controller.functions.runtime import FunctionRuntime
from kanister_py.controller.functions.settings import CompositionSettings, FunctionTools
from kanister_py.controller.machine.breakers import Breakers, GuardedRunner
from kanister_py.controller.machine.certificates import CertificateKeeper
from kanister_py.controller.machine.neighbours import CROSSPLANE, another_controller, find_neighbour
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.periodic import PeriodicTask
from kanister_py.controller.machine.work_loop import DONE, FAILED, PassResult, WorkLoop, WorkQueue
from kanister_py.core.actionsets.partitions import labelled_partition
from kanister_py.core.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    GroupVersionResource,
)
from kanister_py.core.revisions.kinds import (
    COMPOSITION_REVISIONS,
    COMPOSITIONS,
    DEFINITIONS,
    ENDPOINT_SLICES,
    FUNCTION_REVISIONS,
    FUNCTIONS,
)
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.watch_cache import ObjectKey

_COLLECT_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 5.0
_SYNC_SECONDS: Final = 0.05


class Compositions:
    """Part of a controller that reconciles composite resources and everything they need."""

    def __init__(
        self,
        part: PartTools,
        tools: FunctionTools,
        settings: CompositionSettings,
        *,
        replaces_crossplane: bool = False,
    ) -> None:
        cluster, clock = part.cluster, part.clock
        self._part = part
        self._settings = settings
        self._answers = tools.answers
        self._replaces_crossplane = replaces_crossplane
        self._partition = settings.partition
        self._synced = False
        self._loop: WorkLoop[Task] = WorkLoop(
            "compositions",
            part,
            threads=settings.workers,
            kind_of=lambda task: task.role,
            groups_of=lambda task: self.limits.groups_of(task),  # noqa: PLW0108 # assigned below
        )
        self.cache = ObjectCache(cluster, clock, self._dispatch, part.metrics.count_api_error)
        breakers: Breakers[Task] = Breakers(clock, part.timers, self.queue.add)
        part.metrics.watch("kanister_py_open_breakers", lambda: float(breakers.open_count))
        guarded = tools._replace(runner=GuardedRunner(tools.runner, breakers, clock))
        self.index = CompositionIndex(cluster, self.cache, part.post_event)
        self._registry = FunctionRevisionRegistry(self.cache, guarded, settings)
        self._pipelines = PipelineRunner(part, self.cache, self._registry, guarded, settings)
        self._composed_with = ComposedWithStatus(cluster, self.cache, self._registry)
        self._kinds = ServedKinds(part, self.cache, self.queue.add, self._reconciler_for)
        users = CompositionUsers(self.cache, self._kinds, self.queue)
        dependencies = DependencyTracker(part, self.cache, self.queue)
        outages = Outages(clock, breakers)
        self._worker = CompositeWorker(
            self.cache, self._kinds, self.queue, users, dependencies, outages
        )
        self.limits = WorkerLimits(settings.workers, self.cache, self._kinds, breakers)
        self._changes = ChangeDispatcher(
            KindChanges(self.cache, self._kinds, self.queue),
            CompositionChanges(
                self.cache,
                self.index,
                self._composed_with,
                users,
                self.queue,
                uses_revisions=settings.uses_revisions,
            ),
            FunctionChanges(self.cache, self._registry, users, self.queue, breakers, settings),
            users,
            dependencies,
        )
        self._watched_kinds = self._kinds_to_watch()
        self._readiness = Readiness(self.cache, self._kinds, self._watched_kinds)
        self._certificate: PeriodicTask | None = None
        self._collection = PeriodicTask(
            clock,
            "garbage collection of revisions",
            self._collect,
            first_seconds=_COLLECT_SECONDS,
            every_seconds=_COLLECT_SECONDS,
        )
        self._init_functions(tools)

    def _reconciler_for(self, kind: Kind) -> CompositeReconciler:
        part, settings = self._part, self._settings
        uses_revisions = settings.uses_revisions
        return CompositeReconciler(
            part,
            self.cache,
            kind,
            CompositionSelector(self.index, kind, part.post_event, uses_revisions=uses_revisions),
            self._pipelines,
            self._composed_with,
            settings.poll_seconds,
        )

    def _init_functions(self, tools: FunctionTools) -> None:
        part, settings = self._part, self._settings
        cluster, clock = part.cluster, part.clock
        keeper = CertificateKeeper(
            cluster, tools.certificates, clock, life=settings.certificate_life
        )
        self._functions = FunctionReconciler(part, tools, settings, self.index.users_of_functions)
        self._runtime = FunctionRuntime(
            part, tools, settings, keeper, self._registry.endpoints.addresses_of
        )
        folder = tools.client_files
        if folder is not None:
            self._certificate = PeriodicTask(
                clock,
                "renewal of the client certificate for functions",
                lambda: write_client_certificate(
                    keeper, folder, settings.namespace, settings.authority
                ),
                every_seconds=settings.certificate_check_seconds,
                retry_seconds=_RETRY_SECONDS,
                on_error=part.metrics.count_api_error,
            )

    # Start and stop

    def start(self) -> None:
        """Start the watches and the workers."""
        neighbour = (
            "" if self._replaces_crossplane else find_neighbour(self._part.cluster, CROSSPLANE)
        )
        if neighbour:
            raise another_controller(
                neighbour, "scale it to 0, or start this one with --replace-crossplane"
            )
        if self._certificate is not None:
            self._certificate.start(at_once=True)
        if self._settings.uses_revisions and self._settings.keeps_revisions and not self._partition:
            self._collection.start()
        for resource, namespace in self._watched_kinds.items():
            self.cache.watch(resource, namespace)
        self._loop.start(self.reconcile)

    def _kinds_to_watch(self) -> Mapping[GroupVersionResource, str]:
        """Map the kinds to watch from the start to a namespace; empty for all namespaces."""
        kinds = dict.fromkeys(
            (CUSTOM_RESOURCE_DEFINITIONS, DEFINITIONS, *self._pipeline_inputs()), ""
        )
        if self._settings.runs_functions:
            home = self._settings.namespace
            kinds |= {FUNCTIONS: "", ENDPOINT_SLICES: home, DEPLOYMENTS: home}
        return kinds

    def _pipeline_inputs(self) -> list[GroupVersionResource]:
        kinds = [COMPOSITIONS, FUNCTION_REVISIONS]
        return [*kinds, COMPOSITION_REVISIONS] if self._settings.uses_revisions else kinds

    def close(self) -> None:
        if self._certificate is not None:
            self._certificate.close()
        self._collection.close()
        self._loop.close()
        self.cache.close()

    def _dispatch(self, *change: Any) -> None:
        self._changes.dispatch(*change)

    @property
    def queue(self) -> WorkQueue[Task]:
        return self._loop.queue

    @property
    def is_settled(self) -> bool:
        return self.queue.is_idle and all(
            self.cache.has_synced(resource) for resource in self.cache.watched
        )

    @property
    def trouble(self) -> str:
        return self._readiness.problem

    # Reconciling

    def reconcile(self, task: Task) -> PassResult:
        """Reconcile one object."""
        try:
            if self._settings.is_paused:
                return DONE
            return self._reconcile(task)
        finally:
            if task.role is Role.DEFINITION:
                self._readiness.record_reconcile(task.key.name)

    def _reconcile(self, task: Task) -> PassResult:
        if not self._owns(task):
            if task.role is Role.DEFINITION:
                return PassResult(self._kinds.observe(task.key.name))
            self._worker.forget(task)
            return DONE
        if task.role is Role.COMPOSITE:
            # With an incomplete cache, functions would be reported as missing.
            if not self._has_synced:
                return PassResult(_SYNC_SECONDS)
            with self._answers.scope():
                return self._worker.reconcile(task)
        if task.role is Role.COMPOSITION_REVISION:
            return self._validate_revision(task.key)
        return PassResult(self._reconcile_other(task))

    def _owns(self, task: Task) -> bool:
        """Return whether an object belongs to this partition.

        Claims and everything that is cluster-scoped belong to the partition without a name.
        """
        if task.role is not Role.COMPOSITE:
            return not self._partition
        xr = self.cache.get_cached(task.resource, task.key)
        if xr is None:
            return True
        return (labelled_partition(xr) if task.key.namespace else "") == self._partition

    @property
    def _has_synced(self) -> bool:
        """Whether the caches of compositions and functions have synced once."""
        if not self._synced:
            self._synced = all(
                self.cache.has_synced(resource) for resource in self._pipeline_inputs()
            )
        return self._synced

    def _reconcile_other(self, task: Task) -> float | None:
        """Reconcile an object of another role; return the seconds until the next time."""
        name = task.key.name
        match task.role:
            case Role.CLAIM:
                served = self._kinds.of(task.resource)
                if served is not None and served.claims is not None:
                    served.claims.reconcile(task.key.namespace, name)
            case Role.COMPOSITION:
                if self._settings.uses_revisions:
                    reconcile_composition(self._part.cluster, name, self._part.post_event)
            case Role.FUNCTION:
                return self._functions.reconcile(name)
            case Role.REVISION:
                return self._runtime.reconcile(name)
            case _:
                return self._kinds.reconcile(name)
        return None

    def _validate_revision(self, key: ObjectKey) -> PassResult:
        if not self.cache.has_synced(FUNCTION_REVISIONS):
            # With an incomplete cache, a valid pipeline would be reported as invalid.
            return FAILED
        revision = self.cache.get_cached(COMPOSITION_REVISIONS, key)
        if revision is not None:
            written = reconcile_composition_revision(
                cluster=self._part.cluster,
                clock=self._part.clock,
                revision=revision,
                functions=self._registry.current(),
                post_event=self._part.post_event,
            )
            if written is not None:
                self.cache.remember(written)
        return DONE

    def _collect(self) -> None:
        self.collect_revisions()

    def collect_revisions(self) -> list[str]:
        """Delete old revisions of Compositions that are not in use; return their names."""
        return collect_revisions(
            self._part.cluster,
            self.cache,
            self.index,
            self._kinds,
            self._settings.keeps_revisions,
        )
