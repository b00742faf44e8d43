"""Served kinds: which kinds of composite resources and claims there are, by their definitions."""

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
    """Kinds that are served, from when their definitions are established until they end."""

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
        """Give what serves a resource, be it composite resources or claims."""
        with self._lock:
            return self._served.get(resource)

    def __iter__(self) -> Iterator[Served]:
        with self._lock:
            return iter([each for key, each in self._served.items() if key == each.resource])

    def is_defined_by(self, name: str) -> bool:
        """Say whether a definition is served."""
        with self._lock:
            return name in self._definitions

    def is_ending(self, resource: GroupVersionResource) -> bool:
        """Say whether the definition of a kind is being deleted."""
        key = ObjectKey("", f"{resource.resource}.{resource.group}")
        definition = self._cache.get_cached(DEFINITIONS, key)
        return definition is None or bool(definition["metadata"].get("deletionTimestamp"))

    def reconcile(self, name: str) -> float | None:
        """Look at a definition, and serve what it offers; say when to look again."""
        part = self._part
        observed = reconcile_definition(part.cluster, part.clock, name, part.post_event)
        return self._follow(name, observed)

    def observe(self, name: str) -> float | None:
        """Serve what a definition offers that another replica sees to."""
        return self._follow(name, observe_definition(self._part.cluster, name))

    def _follow(self, name: str, found: DefinitionOutcome) -> float | None:
        again = self._serve(name, found.kind) if found.kind is not None else None
        if found.kind is None and self._cache.get_cached(DEFINITIONS, ObjectKey("", name)) is None:
            self._stop_serving(name)
        return again or found.again_seconds

    def _serve(self, name: str, kind: Kind) -> float | None:
        try:
            resource = self._cache.resource_of(kind.api_version, kind.kind)
            claim_resource = (
                self._cache.resource_of(kind.api_version, kind.claim_kind)
                if kind.claim_kind
                else None
            )
        except NoMatch:
            # Established, but not yet known to the server that was asked.
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
        for role, each in ((Role.COMPOSITE, resource), (Role.CLAIM, claim_resource)):
            for obj in self._cache.list_cached(each) if each is not None else ():
                assert each is not None
                self._enqueue(Task(role, each, key_of(obj)))
        return None

    def _stop_serving(self, name: str) -> None:
        """Let go of a kind whose definition is gone, once its resources are gone too."""
        if self._cache.get_cached(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey("", name)) is not None:
            # The cluster takes the resources away first, and each needs us for its end.
            return
        with self._lock:
            resource = self._definitions.pop(name, None)
            served = self._served.get(resource) if resource is not None else None
            gone = (served.resource, served.claim_resource) if served is not None else ()
            for each in gone:
                if each is not None:
                    self._served.pop(each, None)
        for each in gone:
            if each is not None:
                self._cache.stop(each)
