"""Composite resources by the composition that they use."""

from __future__ import annotations

from collections import defaultdict
from threading import RLock

from kanister_py.controller.compositions.served_kinds import Served, ServedKinds
from kanister_py.controller.compositions.tasks import Task
from kanister_py.controller.machine.work_loop import WorkQueue
from kanister_py.core.compositions.definitions import machinery_of
from kanister_py.core.revisions.policy import RevisionFacts, follows, selection_of
from kanister_py.executor.object_cache import ObjectCache


class CompositionUsers:
    """Index of composite resources by composition, to enqueue them when it changes."""

    def __init__(self, cache: ObjectCache, kinds: ServedKinds, queue: WorkQueue[Task]) -> None:
        self._cache = cache
        self._kinds = kinds
        self._queue = queue
        self._lock = RLock()
        self._users: dict[str, set[Task]] = defaultdict(set)
        self._composition_of: dict[Task, str] = {}
        self._changes = 0

    @property
    def changes(self) -> int:
        """Number of changes of compositions and functions so far."""
        return self._changes

    def count_change(self) -> None:
        """Count a change, once it is visible in the cache and its users are in the queue."""
        with self._lock:
            self._changes += 1

    def record_use(self, task: Task, served: Served) -> None:
        """Record which composition a composite resource uses after a reconcile."""
        xr = self._cache.get_cached(task.resource, task.key)
        if xr is None:
            return
        name = selection_of(machinery_of(xr, legacy=served.kind.is_legacy)).composition
        with self._lock:
            if self._composition_of.get(task) == name:
                return
            self._remove_use(task)
            self._composition_of[task] = name
            self._users[name].add(task)

    def forget(self, task: Task) -> None:
        """Remove a composite resource that was deleted or belongs to another partition."""
        with self._lock:
            self._remove_use(task)

    def _remove_use(self, task: Task) -> None:
        name = self._composition_of.pop(task, None)
        if name is not None:
            users = self._users[name]
            users.discard(task)
            if not users:
                del self._users[name]

    def enqueue_users(self, composition: str) -> None:
        """Enqueue the users of a composition, and composite resources without a composition."""
        for task in self._users_of(composition):
            self._queue.add(task)

    def enqueue_followers(self, facts: RevisionFacts) -> None:
        """Enqueue the composite resources that may select a revision with a new number."""
        for task in self._users_of(facts.composition):
            served = self._kinds.of(task.resource)
            xr = self._cache.get_cached(task.resource, task.key)
            if served is None or xr is None:
                continue
            selection = selection_of(machinery_of(xr, legacy=served.kind.is_legacy))
            is_missing = selection.revision in ("", facts.name)
            if is_missing or follows(selection, served.kind.rules, facts.composition, facts):
                self._queue.add(task)

    def _users_of(self, composition: str) -> list[Task]:
        with self._lock:
            return [*self._users.get(composition, ()), *self._users.get("", ())]
