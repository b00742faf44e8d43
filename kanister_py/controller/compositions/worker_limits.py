"""Limits on the workers that one kind, namespace or function may keep busy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kanister_py.controller.compositions.composition_index import composition_facts
from kanister_py.controller.compositions.served_kinds import Served, ServedKinds
from kanister_py.controller.compositions.tasks import Role, Task
from kanister_py.controller.machine.breakers import Breakers
from kanister_py.controller.machine.work_loop import Groups
from kanister_py.core.compositions.definitions import machinery_of
from kanister_py.core.compositions.model import called_functions
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.parts import spec_of
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, COMPOSITIONS
from kanister_py.core.revisions.policy import (
    CompositionSelection,
    UpdatePolicy,
    choose_composition,
    policy_of,
    selection_of,
)
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.watch_cache import ObjectKey

_UNKNOWN: Final = "unknown functions"
"""Group of the composite resources whose composition is not in the cache yet."""


class WorkerLimits:
    """Groups of tasks that share workers, with the number of workers for each group.

    A function gets a quarter of the workers, or an eighth as long as it has not answered. A kind
    gets an eighth more than a function, so that a hanging function leaves workers to the other
    resources of the kind, and a namespace gets a half.
    """

    def __init__(
        self, workers: int, cache: ObjectCache, kinds: ServedKinds, breakers: Breakers[Task]
    ) -> None:
        self._quarter = max(1, workers // 4)
        self._eighth = max(1, workers // 8)
        self._cache = cache
        self._kinds = kinds
        self._breakers = breakers

    def groups_of(self, task: Task) -> Groups:
        """List the groups of a task; only composite resources are limited."""
        if task.role is not Role.COMPOSITE:
            return ()
        return (
            (task.resource, self._quarter + self._eighth),
            (task.key.namespace, self._quarter * 2),
            *(
                (name, self._quarter if self._breakers.is_proven(name) else self._eighth)
                for name in self._functions_of(task)
            ),
        )

    def _functions_of(self, task: Task) -> Sequence[str]:
        """List the functions that the next reconcile will call, without any request."""
        served = self._kinds.of(task.resource)
        xr = self._cache.get_cached(task.resource, task.key)
        if served is None or xr is None:
            return ()
        selection = selection_of(machinery_of(xr, legacy=served.kind.is_legacy))
        if selection.revision and policy_of(selection, served.kind.rules) is UpdatePolicy.MANUAL:
            resource, name = COMPOSITION_REVISIONS, selection.revision
        else:
            resource, name = COMPOSITIONS, self._composition_of(selection, served)
        obj = self._cache.get_cached(resource, ObjectKey("", name))
        return (_UNKNOWN,) if obj is None else sorted(called_functions(spec_of(obj)))

    def _composition_of(self, selection: CompositionSelection, served: Served) -> str:
        """Return the name of the composition to use, or an empty string if there is none."""
        rules, kind = served.kind.rules, served.kind
        name = rules.enforced_composition or selection.composition
        if not name and selection.selector is None:
            name = rules.default_composition
        if name:
            return name
        candidates = [composition_facts(obj) for obj in self._cache.list_cached(COMPOSITIONS)]
        try:
            return choose_composition(selection, rules, kind.api_version, kind.kind, candidates)
        except UsageError:
            return ""
