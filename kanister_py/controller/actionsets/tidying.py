"""Cleanup after ended ActionSets: remaining pods, finalizers, and deletion when they expire.

The oldest ActionSets beyond a limit are deleted as well. The parent of an active ActionSet is
kept until its child has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from kanister_py.controller.actionsets.projection import CachedActionSet, Ended, Live
from kanister_py.controller.actionsets.status import FINALIZER, StatusWriters
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.work_loop import WorkQueue
from kanister_py.core.actionsets.status import Status
from kanister_py.core.actionsets.stored_status import read_valid_status
from kanister_py.core.errors import Conflict, NotFound
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.schedules.status import has_handled
from kanister_py.executor.refused_reads import RefusedReads
from kanister_py.executor.run.orphaned_pods import delete_pods_of_attempts, run_keys
from kanister_py.executor.watch_cache import ObjectKey, WatchCache
from kanister_py.ports.cluster import find

_RETRY_SECONDS: Final = 1.0


class Tidying:
    """Cleanup after runs, and deletion of ActionSets that are no longer needed."""

    def __init__(
        self,
        tools: PartTools,
        writers: StatusWriters,
        store: WatchCache[CachedActionSet],
        chores: WorkQueue[ObjectKey],
        refused: RefusedReads,
    ) -> None:
        self._cluster, self._clock = tools.cluster, tools.clock
        self._writers = writers
        self._store = store
        self._chores = chores
        self._refused = refused
        self.is_active: Callable[[ObjectKey], bool] = lambda _key: False
        """Returns whether this process is running an ActionSet."""

    def add(self, key: ObjectKey) -> None:
        """Queue an ActionSet that has ended."""
        self._chores.add(key)

    def drop(self, key: ObjectKey) -> None:
        """Cancel the delayed work for an ActionSet that was deleted."""
        self._chores.drop(key)

    def sweep(self, key: ObjectKey, uid: str, status: Status) -> None:
        """Delete the remaining pods of a run's attempts.

        All namespaces are searched or, if that is forbidden, those of the run and its objects.
        """
        keys = sorted(run_keys(uid, status))
        namespaces = {key.namespace}
        for action in status.actions:
            namespaces.add(str(action.object.get("namespace") or key.namespace))
        delete_pods_of_attempts(self._cluster, keys, sorted(namespaces), str(key), self._refused)

    # ActionSets that have ended

    def tidy(self, key: ObjectKey) -> None:
        """Finish the cleanup of an ended ActionSet, and delete it when its TTL has passed."""
        cached = self._store.get(key)
        if not isinstance(cached, Ended):
            return
        if self.is_active(key):
            self._chores.add_after(key, _RETRY_SECONDS)
            return
        if cached.has_finalizer:
            self._finish_cleanup(key, cached)
        if not cached.is_deleted:
            self._collect(key, cached)

    def _finish_cleanup(self, key: ObjectKey, cached: Ended) -> None:
        """Finish the cleanup of a run whose process died after writing the final status."""
        obj = find(self._cluster, ACTION_SETS, key.name, key.namespace)
        if obj is None or obj["metadata"]["uid"] != cached.uid:
            return
        if FINALIZER not in (obj["metadata"].get("finalizers") or ()):
            return
        status = read_valid_status(obj)
        if status is not None:
            self.sweep(key, cached.uid, status)
        writer = self._writers.of(obj)
        writer.remove_finalizer()

    def _collect(self, key: ObjectKey, cached: Ended) -> None:
        expiry = expiry_of(cached)
        if expiry is None:
            return
        left = (expiry - self._clock.now()).total_seconds()
        if left > 0:
            self._chores.add_after(key, left)
        elif key in parents_of_active(self._store.items()) or not self._is_noted(key, cached):
            self._chores.add_after(key, 30.0)
        else:
            self.delete(key, cached.uid)

    def _is_noted(self, key: ObjectKey, cached: Ended) -> bool:
        """Return whether the status of its schedule records that an ActionSet was created.

        Until then the ActionSet must exist, or its schedule would create another one for the same
        due time.
        """
        if cached.made_for is None:
            return True
        schedule = find(self._cluster, SCHEDULES, cached.made_for.schedule, key.namespace)
        return schedule is None or has_handled(schedule, cached.made_for.time)

    def delete(self, key: ObjectKey, uid: str) -> None:
        """Delete an ActionSet, unless it was already deleted or replaced."""
        try:
            self._cluster.delete(ACTION_SETS, key.name, namespace=key.namespace, uid=uid)
        except (NotFound, Conflict):
            return


def expiry_of(ended: Ended) -> datetime | None:
    """Return when an ActionSet is to be deleted; None for never."""
    if ended.ttl_seconds is None:
        return None
    return ended.ended_at + timedelta(seconds=ended.ttl_seconds)


def parents_of_active(sets: Iterable[tuple[ObjectKey, CachedActionSet]]) -> frozenset[ObjectKey]:
    """Return the parents of all ActionSets that have not ended."""
    return frozenset(
        ObjectKey(key.namespace, parent)
        for key, cached in sets
        if isinstance(cached, Live)
        for parent in cached.parents
    )


def surplus(
    sets: Mapping[ObjectKey, CachedActionSet], newest: int, needed: frozenset[ObjectKey]
) -> list[ObjectKey]:
    """Return the ended ActionSets beyond the `newest` ones of each Blueprint, oldest first.

    An ActionSet of several Blueprints counts for each of them, and is returned only if it is
    surplus for all of them. ActionSets in `needed` are not returned, nor are records of backups,
    which the retention of their schedule deletes.
    """
    by_blueprint: dict[tuple[str, str], list[tuple[datetime, ObjectKey]]] = {}
    for key, ended in sets.items():
        if isinstance(ended, Ended) and not ended.is_record:
            for blueprint in ended.blueprints or ("",):
                dated = by_blueprint.setdefault((key.namespace, blueprint), [])
                dated.append((ended.ended_at, key))
    retained: set[ObjectKey] = set()
    old: list[tuple[datetime, ObjectKey]] = []
    for dated in by_blueprint.values():
        dated.sort(reverse=True)
        retained.update(key for _, key in dated[:newest])
        old += dated[newest:]
    return [
        key
        for key in dict.fromkeys(key for _, key in sorted(old))
        if key not in retained and key not in needed
    ]
