"""Dependencies of composite resources: watching them, and enqueueing the dependents of a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.controller.compositions.dependents import (
    DependencyIndex,
    EventRateLimit,
    LabelSelection,
)
from kanister_py.controller.compositions.reconciliation import Dependencies
from kanister_py.controller.compositions.served_kinds import Served
from kanister_py.controller.compositions.tasks import Task
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.work_loop import WorkQueue
from kanister_py.core.compositions.definitions import machinery_of
from kanister_py.core.compositions.requirements import required_labels
from kanister_py.core.errors import NoMatch
from kanister_py.core.kube.parts import controller_of, labels_of
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import KubeObject


class DependencyTracker:
    """Tracker of the dependencies of composite resources, which enqueues them on a change."""

    def __init__(self, part: PartTools, cache: ObjectCache, queue: WorkQueue[Task]) -> None:
        self._cluster = part.cluster
        self._cache = cache
        self._queue = queue
        self._index: DependencyIndex[Task] = DependencyIndex()
        self.rate_limit: EventRateLimit[Task] = EventRateLimit(part.clock)

    def track(self, task: Task, dependencies: Dependencies) -> bool:
        """Replace the dependencies of a task, and watch their kinds.

        Returns True if there are new ones, whose changes up to now may have been missed.
        """
        selectors: list[Mapping[str, Any]] = [
            {"namespace": task.key.namespace, **ref, "matchName": ref["name"]}
            for ref in dependencies.refs
        ]
        selectors += dependencies.needs
        for requirements in dependencies.requirements.values():
            for by_name in (requirements.get("resources"), requirements.get("extraResources")):
                selectors += (by_name or {}).values()
        names: list[tuple[GroupVersionResource, ObjectKey]] = []
        label_selectors: list[LabelSelection] = []
        for selector in selectors:
            self._resolve(selector, names, label_selectors)
        is_new = self._index.track(task, names, label_selectors)
        resources = {resource for resource, _key in names}
        for resource in resources | {selector.resource for selector in label_selectors}:
            self._cache.watch(resource)
        return is_new

    def track_refs(self, task: Task, xr: KubeObject, served: Served) -> None:
        """Track what a resource composed before this process started, unless it is tracked."""
        if self._index.has_dependencies(task):
            return
        refs = machinery_of(xr, legacy=served.kind.is_legacy).get("resourceRefs") or ()
        self.track(task, Dependencies(tuple(ref for ref in refs if ref.get("name"))))

    def _resolve(
        self,
        selector: Mapping[str, Any],
        names: list[tuple[GroupVersionResource, ObjectKey]],
        label_selectors: list[LabelSelection],
    ) -> None:
        """Add a selector to `names` or `label_selectors`; an unknown kind is skipped."""
        api_version, kind = str(selector.get("apiVersion")), str(selector.get("kind"))
        try:
            resource = self._cluster.resource_for(api_version, kind)
        except NoMatch:
            return
        namespace = str(selector.get("namespace") or "") if resource.is_namespaced else ""
        if "matchName" in selector:
            names.append((resource.gvr, ObjectKey(namespace, str(selector["matchName"]))))
            return
        labels = required_labels(selector)
        label_selectors.append(LabelSelection(resource.gvr, namespace, frozenset(labels.items())))

    def enqueue_dependents(
        self,
        resource: GroupVersionResource,
        key: ObjectKey,
        old: KubeObject | None,
        new: KubeObject | None,
    ) -> None:
        """Enqueue the composite resources that depend on a changed object."""
        labels = [labels_of(obj or {}) for obj in (old, new)]
        tasks = self._index.dependents_of(resource, key, *labels)
        if not tasks:
            return
        kind = (new or old or {}).get("kind", resource.resource)
        source = f"{kind}/{key.name} ({key.namespace})" if key.namespace else f"{kind}/{key.name}"
        writer_uid = ""
        if new is not None and self._cache.is_write_of_another(resource, new):
            # The writer re-reads the object anyway, so this event carries no news for it.
            writer_uid = str((controller_of(new) or {}).get("uid") or "")
        for task in tasks:
            if not writer_uid or self._uid_of(task) != writer_uid:
                self.enqueue(task, source)

    def _uid_of(self, task: Task) -> str:
        obj = self._cache.get_cached(task.resource, task.key)
        return str(obj["metadata"].get("uid") or "") if obj is not None else ""

    def enqueue(self, task: Task, source: str) -> None:
        """Enqueue a task because `source` changed, with a delay if there are too many changes."""
        seconds = self.rate_limit.delay_for(task, source)
        if seconds:
            self._queue.add_after(task, seconds)
        else:
            self._queue.add(task)

    def forget(self, task: Task) -> None:
        """Remove a composite resource that was deleted or belongs to another partition."""
        self._index.forget(task)
        self.rate_limit.forget(task)
