"""The part of the controller that composes: definitions, compositions, functions, resources.

One queue holds everything that must be looked at, whatever its kind, and a few threads
look. What they read comes from watches; what they find out about who depends on what is
remembered only for as long as the process lives.
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
    """The part of a controller that composes."""

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
        self._sees = False
        self._loop: WorkLoop[Task] = WorkLoop(
            "compositions",
            part,
            threads=settings.workers,
            kind_of=lambda task: task.role,
            groups_of=lambda task: self.limits.groups_of(task),  # noqa: PLW0108 # assigned below
        )
        self.seen = ObjectCache(cluster, clock, self._dispatch, part.metrics.count_api_error)
        breakers: Breakers[Task] = Breakers(clock, part.timers, self.queue.add)
        part.metrics.watch("kanister_py_open_breakers", lambda: float(breakers.open_count))
        guarded = tools._replace(runner=GuardedRunner(tools.runner, breakers, clock))
        self.index = CompositionIndex(cluster, self.seen, part.post_event)
        self._registry = FunctionRevisionRegistry(self.seen, guarded, settings)
        self._pipelines = PipelineRunner(part, self.seen, self._registry, guarded, settings)
        self._composed_with = ComposedWithStatus(cluster, self.seen, self._registry)
        self._kinds = ServedKinds(part, self.seen, self.queue.add, self._reconciler_for)
        users = CompositionUsers(self.seen, self._kinds, self.queue)
        dependencies = DependencyTracker(part, self.seen, self.queue)
        outages = Outages(clock, breakers)
        self._worker = CompositeWorker(
            self.seen, self._kinds, self.queue, users, dependencies, outages
        )
        self.limits = WorkerLimits(settings.workers, self.seen, self._kinds, breakers)
        self._changes = ChangeDispatcher(
            KindChanges(self.seen, self._kinds, self.queue),
            CompositionChanges(
                self.seen,
                self.index,
                self._composed_with,
                users,
                self.queue,
                uses_revisions=settings.uses_revisions,
            ),
            FunctionChanges(self.seen, self._registry, users, self.queue, breakers, settings),
            users,
            dependencies,
        )
        self._always = self._always_watched()
        self._readiness = Readiness(self.seen, self._kinds, self._always)
        self._certificate: PeriodicTask | None = None
        self._collection = PeriodicTask(
            clock,
            "the collection of revisions",
            self._collect,
            first_seconds=_COLLECT_SECONDS,
            every_seconds=_COLLECT_SECONDS,
        )
        self._make_functions(tools)

    def _reconciler_for(self, kind: Kind) -> CompositeReconciler:
        part, settings = self._part, self._settings
        uses_revisions = settings.uses_revisions
        return CompositeReconciler(
            part,
            self.seen,
            kind,
            CompositionSelector(self.index, kind, part.post_event, uses_revisions=uses_revisions),
            self._pipelines,
            self._composed_with,
            settings.poll_seconds,
        )

    def _make_functions(self, tools: FunctionTools) -> None:
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
                "the certificate for calling functions",
                lambda: write_client_certificate(
                    keeper, folder, settings.namespace, settings.authority
                ),
                every_seconds=settings.looks_every_seconds,
                retry_seconds=_RETRY_SECONDS,
                on_error=part.metrics.count_api_error,
            )

    # Its life

    def start(self) -> None:
        """Watch what is always watched, and begin to look."""
        found = "" if self._replaces_crossplane else find_neighbour(self._part.cluster, CROSSPLANE)
        if found:
            raise another_controller(
                found, "scale it to 0, or start this one with --replace-crossplane"
            )
        if self._certificate is not None:
            self._certificate.start(at_once=True)
        if self._settings.uses_revisions and self._settings.keeps_revisions and not self._partition:
            self._collection.start()
        for resource, namespace in self._always.items():
            self.seen.watch(resource, namespace)
        self._loop.start(self.look)

    def _always_watched(self) -> Mapping[GroupVersionResource, str]:
        """Give the kinds that are watched from the start, everywhere or in one namespace."""
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
        self.seen.close()

    def _dispatch(self, *change: Any) -> None:
        self._changes.dispatch(*change)

    @property
    def queue(self) -> WorkQueue[Task]:
        return self._loop.queue

    @property
    def is_settled(self) -> bool:
        return self.queue.is_idle and all(self.seen.has_synced(each) for each in self.seen.watched)

    @property
    def trouble(self) -> str:
        return self._readiness.lack

    # Looking

    def look(self, task: Task) -> PassResult:
        """Look at one object."""
        try:
            if self._settings.is_paused:
                return DONE
            return self._look(task)
        finally:
            if task.role is Role.DEFINITION:
                self._readiness.note_look(task.key.name)

    def _look(self, task: Task) -> PassResult:
        if not self._owns(task):
            if task.role is Role.DEFINITION:
                return PassResult(self._kinds.observe(task.key.name))
            self._worker.forget(task)
            return DONE
        if task.role is Role.COMPOSITE:
            # Who has not seen every function would say that some are missing.
            if not self._has_seen_all:
                return PassResult(_SYNC_SECONDS)
            with self._answers.scope():
                return self._worker.reconcile(task)
        if task.role is Role.COMPOSITION_REVISION:
            return self._look_at_composition_revision(task.key)
        return PassResult(self._look_at_machinery(task))

    def _owns(self, task: Task) -> bool:
        """Return whether an object belongs to this partition.

        Claims and everything that is cluster-scoped belong to the partition without a name.
        """
        if task.role is not Role.COMPOSITE:
            return not self._partition
        xr = self.seen.get_cached(task.resource, task.key)
        if xr is None:
            return True
        return (labelled_partition(xr) if task.key.namespace else "") == self._partition

    @property
    def _has_seen_all(self) -> bool:
        """Whether all that resources are composed with has been seen; once it has, it has."""
        if not self._sees:
            self._sees = all(self.seen.has_synced(each) for each in self._pipeline_inputs())
        return self._sees

    def _look_at_machinery(self, task: Task) -> float | None:
        """Look at what composing stands on; say after how many seconds to look again."""
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

    def _look_at_composition_revision(self, key: ObjectKey) -> PassResult:
        if not self.seen.has_synced(FUNCTION_REVISIONS):
            # Before every function has been seen, a condition that holds would be taken back.
            return FAILED
        revision = self.seen.get_cached(COMPOSITION_REVISIONS, key)
        if revision is not None:
            written = reconcile_composition_revision(
                cluster=self._part.cluster,
                clock=self._part.clock,
                revision=revision,
                functions=self._registry.current(),
                tell=self._part.post_event,
            )
            if written is not None:
                self.seen.remember(written)
        return DONE

    def _collect(self) -> None:
        self.collect_revisions()

    def collect_revisions(self) -> list[str]:
        """Delete revisions of Compositions beyond the newest that nobody uses; name them."""
        return collect_revisions(
            self._part.cluster,
            self.seen,
            self.index,
            self._kinds,
            self._settings.keeps_revisions,
        )
