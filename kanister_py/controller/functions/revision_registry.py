"""Registry of function revisions: those in the cluster, and the built-in ones."""

from __future__ import annotations

from collections import defaultdict
from threading import RLock

from kanister_py.controller.functions.endpoints import FunctionEndpoints
from kanister_py.controller.functions.settings import CompositionSettings, FunctionTools
from kanister_py.core.compositions.installed import built_in_revisions, run_by_package
from kanister_py.core.registry.entries import FunctionRevision, Registry, RegistryBuilder
from kanister_py.core.revisions.functions import Runtime, revision_of, runtime_of
from kanister_py.core.revisions.kinds import FUNCTION_REVISIONS
from kanister_py.core.revisions.lifecycles import with_lifecycles
from kanister_py.core.revisions.runtime import server_name
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.ports.cluster import KubeObject


class FunctionRevisionRegistry:
    """Function revisions with their endpoints; rebuilt from the informer cache after a change."""

    def __init__(
        self, cache: ObjectCache, tools: FunctionTools, settings: CompositionSettings
    ) -> None:
        self.endpoints = FunctionEndpoints(cache, settings.namespace)
        self._cache = cache
        self._tools = tools
        self._settings = settings
        self._lock = RLock()
        self._registry: Registry[FunctionRevision] | None = None

    def update_revisions(self) -> None:
        """Record that a FunctionRevision changed; close connections to unroutable revisions."""
        with self._lock:
            self._registry = None
        self._tools.keep_only(
            [
                revision.name
                for family in self.current()
                for revision in family
                if revision.is_routable
            ]
        )

    def update_endpoints(self, endpoint_slice: KubeObject) -> str:
        """Record that an EndpointSlice changed; return the name of its Service if it is ours."""
        with self._lock:
            service = self.endpoints.update(endpoint_slice)
            if service:
                self._registry = None
        return service

    def current(self) -> Registry[FunctionRevision]:
        """Return all revisions; a Function in the cluster hides the built-in one of its name."""
        with self._lock:
            if self._registry is None:
                self._registry = self._build()
            return self._registry

    def _build(self) -> Registry[FunctionRevision]:
        by_function: dict[str, list[FunctionRevision]] = defaultdict(list)
        for obj in self._cache.list_cached(FUNCTION_REVISIONS):
            revision = self._with_endpoint(obj)
            if revision.function:
                by_function[revision.function].append(revision)
        builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
        for revisions in by_function.values():
            builder.add(with_lifecycles(revisions))
        built_in: dict[str, list[FunctionRevision]] = defaultdict(list)
        for revision in built_in_revisions(self._tools.entries):
            built_in[revision.function].append(revision)
        for function, revisions in built_in.items():
            if function not in by_function:
                builder.add(revisions)
        return builder.build()

    def _with_endpoint(self, obj: KubeObject) -> FunctionRevision:
        """Parse a revision, with the addresses of its ready pods as its endpoint."""
        revision = revision_of(obj)
        runtime = runtime_of(obj, self._settings.default_runtime)
        if runtime is Runtime.IN_PROCESS:
            is_strict = self._settings.is_strict
            return run_by_package(revision, self._tools.entries, obj, strict=is_strict)
        if not self._settings.runs_functions or runtime is not Runtime.DEPLOYMENT:
            return revision
        addresses = self.endpoints.addresses_of(revision.name)
        if not addresses:
            return revision._replace(endpoint="")
        host = server_name(revision.name, self._settings.namespace)
        return revision._replace(endpoint=f"ipv4:{','.join(addresses)}#{host}")
