"""Kinds of composite resources and claims that this controller serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import RLock
from typing import NamedTuple

from kanister_py.controller.compositions.claims import ClaimReconciler
from kanister_py.controller.compositions.definitions import (
    DefinitionOutcome,
    observe_definition,
    reconcile_definition,
)
from kanister_py.controller.compositions.resources import CompositeReconciler
from kanister_py.controller.compositions.tasks import Kind, Role, Task
from kanister_py.controller.machine.part import PartTools
from kanister_py.core.errors import NoMatch
from kanister_py.core.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, GroupVersionResource
from kanister_py.core.revisions.kinds import DEFINITIONS
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.watch_cache import ObjectKey, key_of


class Served(NamedTuple):
    """A kind of composite resource that is served, with its claims if it offers any."""

    kind: Kind
    resource: GroupVersionResource
    reconciler: CompositeReconciler
    claims: ClaimReconciler | None = None
    claim_resource: GroupVersionResource | None = None


class ServedKinds:
    """Registry of the served kinds, from their establishment to the end of their definitions."""

    def __init__(
        self,
        part: PartTools,
        cache: ObjectCache,
        enqueue: Callable[[Task], None],
        reconciler_for: Callable[[Kind], CompositeReconciler],
    ) -> None:
        self._part = part
        self._cache = cache
        self._enqueue = enqueue
        self._reconciler_for = reconciler_for
        self._lock = RLock()
        self._served: dict[GroupVersionResource, Served] = {}
        self._definitions: dict[str, GroupVersionResource] = {}

    def of(self, resource: GroupVersionResource) -> Served | None:
        """Return the kind whose composite resources or claims have a resource type."""
        with self._lock:
            return self._served.get(resource)

    def __iter__(self) -> Iterator[Served]:
        with self._lock:
            return iter([served for key, served in self._served.items() if key == served.resource])

    def is_defined_by(self, name: str) -> bool:
        """Return whether a definition is served."""
        with self._lock:
            return name in self._definitions

    def is_ending(self, resource: GroupVersionResource) -> bool:
        """Return whether the definition of a kind is being deleted."""
        key = ObjectKey("", f"{resource.resource}.{resource.group}")
        definition = self._cache.get_cached(DEFINITIONS, key)
        return definition is None or bool(definition["metadata"].get("deletionTimestamp"))

    def reconcile(self, name: str) -> float | None:
        """Reconcile a definition and serve its kinds; return when to do so again."""
        part = self._part
        outcome = reconcile_definition(part.cluster, part.clock, name, part.post_event)
        return self._update(name, outcome)

    def observe(self, name: str) -> float | None:
        """Serve the kinds of a definition that another replica reconciles."""
        return self._update(name, observe_definition(self._part.cluster, name))

    def _update(self, name: str, outcome: DefinitionOutcome) -> float | None:
        again = self._serve(name, outcome.kind) if outcome.kind is not None else None
        if (
            outcome.kind is None
            and self._cache.get_cached(DEFINITIONS, ObjectKey("", name)) is None
        ):
            self._stop_serving(name)
        return again or outcome.again_seconds

    def _serve(self, name: str, kind: Kind) -> float | None:
        try:
            resource = self._cache.resource_of(kind.api_version, kind.kind)
            claim_resource = (
                self._cache.resource_of(kind.api_version, kind.claim_kind)
                if kind.claim_kind
                else None
            )
        except NoMatch:
            # Established, but not yet in the discovery of the API server that responded.
            return 1.0
        with self._lock:
            before = self._served.get(resource)
            if before is not None and (before.kind, before.claim_resource) == (
                kind,
                claim_resource,
            ):
                return None
            claims = ClaimReconciler(self._part, kind) if claim_resource else None
            served = Served(kind, resource, self._reconciler_for(kind), claims, claim_resource)
            self._served[resource] = served
            self._definitions[name] = resource
            if claim_resource is not None:
                self._served[claim_resource] = served
            withdrawn = before.claim_resource if before is not None else None
            if withdrawn is not None and withdrawn != claim_resource:
                del self._served[withdrawn]
                self._cache.stop(withdrawn)
        for obj in self._cache.list_cached(resource):
            self._enqueue(Task(Role.COMPOSITE, resource, key_of(obj)))
        if claim_resource is not None:
            for obj in self._cache.list_cached(claim_resource):
                self._enqueue(Task(Role.CLAIM, claim_resource, key_of(obj)))
        return None

    def _stop_serving(self, name: str) -> None:
        """Stop serving a kind whose definition is gone, once its resources are gone too."""
        if self._cache.get_cached(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey("", name)) is not None:
            # The API server deletes the resources first, and this controller has to finalize them.
            return
        with self._lock:
            resource = self._definitions.pop(name, None)
            served = self._served.get(resource) if resource is not None else None
            removed = (served.resource, served.claim_resource) if served is not None else ()
            for removed_resource in filter(None, removed):
                self._served.pop(removed_resource, None)
        for removed_resource in filter(None, removed):
            self._cache.stop(removed_resource)
