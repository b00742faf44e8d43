"""Readiness of the compositions part: whether new composite resources can be reconciled."""

from __future__ import annotations

from collections.abc import Collection

from kanister_py.controller.compositions.served_kinds import ServedKinds
from kanister_py.core.kube.parts import name_of
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.revisions.kinds import DEFINITIONS
from kanister_py.executor.object_cache import ObjectCache


class Readiness:
    """Readiness of this replica: unready until every definition of the start is served.

    A broken kind does not keep the replica unready: a definition counts once it was reconciled,
    even without success, and a kind once listing it has succeeded or failed. After that, only
    the kinds in `needed` count.
    """

    def __init__(
        self, cache: ObjectCache, kinds: ServedKinds, needed: Collection[GroupVersionResource]
    ) -> None:
        """`needed` are the kinds that every reconcile of a composite resource reads."""
        self._cache = cache
        self._kinds = kinds
        self._needed = needed
        self._reconciled: set[str] = set()
        self._is_ready = False

    def record_reconcile(self, definition: str) -> None:
        """Record that a definition was reconciled, successfully or not."""
        if not self._is_ready:
            self._reconciled.add(definition)

    @property
    def problem(self) -> str:
        """The reason why this replica is unready; empty if it is ready."""
        problem = next(filter(None, map(self._cache.trouble_of, self._needed)), "")
        if not problem and not self._is_ready:
            problem = self._problem_at_start()
            self._is_ready = not problem
        return problem

    def _problem_at_start(self) -> str:
        cache = self._cache
        for resource in self._needed:
            if not cache.has_synced(resource):
                return f"has not listed all {resource.group_resource} yet"
        for name in map(name_of, cache.list_cached(DEFINITIONS)):
            if name not in self._reconciled:
                return f"has not reconciled the definition {name} yet"
        for served in self._kinds:
            for resource in filter(None, (served.resource, served.claim_resource)):
                if not cache.has_synced(resource) and not cache.trouble_of(resource):
                    return f"has not listed all {resource.group_resource} yet"
        return ""
