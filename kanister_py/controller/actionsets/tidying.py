"""Tidying up after ActionSets: pods that runs left, finalizers, and those whose time is over.

The oldest of too many go, too. One that a living ActionSet was made from stays until that
one has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from kanister_py.controller.actionsets.projection import Ended, Kept, Live
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

_LOOK_AGAIN_SECONDS: Final = 1.0


class Tidying:
    """Cleaning up after runs, and the deletion of ActionSets that are needed no longer."""

    def __init__(
        self,
        tools: PartTools,
        writers: StatusWriters,
        store: WatchCache[Kept],
        chores: WorkQueue[ObjectKey],
        refused: RefusedReads,
    ) -> None:
        self._cluster, self._clock = tools.cluster, tools.clock
        self._writers = writers
        self._store = store
        self._chores = chores
        self._refused = refused
        self.is_active: Callable[[ObjectKey], bool] = lambda _key: False
        """Whether a run of an ActionSet is under way in this process."""

    def add(self, key: ObjectKey) -> None:
        """Have an ActionSet looked at that ended."""
        self._chores.add(key)

    def drop(self, key: ObjectKey) -> None:
        """Look no more at an ActionSet that is gone."""
        self._chores.drop(key)

    def sweep(self, key: ObjectKey, uid: str, status: Status) -> None:
        """Delete the pods that attempts of a run have left, wherever they are."""
        keys = sorted(run_keys(uid, status))
        namespaces = {key.namespace}
        for action in status.actions:
            namespaces.add(str(action.object.get("namespace") or key.namespace))
        delete_pods_of_attempts(self._cluster, keys, sorted(namespaces), str(key), self._refused)

    # Those that ended

    def tidy(self, key: ObjectKey) -> None:
        """Look at an ActionSet that ended: finish its cleaning up, and delete it in time."""
        kept = self._store.get(key)
        if not isinstance(kept, Ended):
            return
        if self.is_active(key):
            self._chores.add_after(key, _LOOK_AGAIN_SECONDS)
            return
        if kept.has_finalizer:
            self._finish_cleanup(key, kept)
        if not kept.is_deleted:
            self._collect(key, kept)

    def _finish_cleanup(self, key: ObjectKey, kept: Ended) -> None:
        """Do what a process left undone that died after it had written how a run ended."""
        obj = find(self._cluster, ACTION_SETS, key.name, key.namespace)
        if obj is None or obj["metadata"]["uid"] != kept.uid:
            return
        if FINALIZER not in (obj["metadata"].get("finalizers") or ()):
            return
        status = read_valid_status(obj)
        if status is not None:
            self.sweep(key, kept.uid, status)
        writer = self._writers.of(obj)
        writer.remove_finalizer()

    def _collect(self, key: ObjectKey, kept: Ended) -> None:
        expiry = expiry_of(kept)
        if expiry is None:
            return
        left = (expiry - self._clock.now()).total_seconds()
        if left > 0:
            self._chores.add_after(key, left)
        elif key in parents_in_need(self._store.items()) or not self._is_noted(key, kept):
            self._chores.add_after(key, 30.0)
        else:
            self.delete(key, kept.uid)

    def _is_noted(self, key: ObjectKey, kept: Ended) -> bool:
        """Say whether the schedule of an ActionSet knows that it was made.

        Until then it is the lock on its time: without it the time would run once more.
        """
        if kept.made_for is None:
            return True
        schedule = find(self._cluster, SCHEDULES, kept.made_for.schedule, key.namespace)
        return schedule is None or has_handled(schedule, kept.made_for.time)

    def delete(self, key: ObjectKey, uid: str) -> None:
        """Delete an ActionSet that nobody needs any more."""
        try:
            self._cluster.delete(ACTION_SETS, key.name, namespace=key.namespace, uid=uid)
        except (NotFound, Conflict):
            return


def expiry_of(ended: Ended) -> datetime | None:
    """Say when an ActionSet's time is over; None for never."""
    if ended.ttl_seconds is None:
        return None
    return ended.ended_at + timedelta(seconds=ended.ttl_seconds)


def parents_in_need(sets: Iterable[tuple[ObjectKey, Kept]]) -> frozenset[ObjectKey]:
    """Say which ActionSets those that live were made from."""
    return frozenset(
        ObjectKey(key.namespace, parent)
        for key, kept in sets
        if isinstance(kept, Live)
        for parent in kept.parents
    )


def surplus(
    sets: Mapping[ObjectKey, Kept], newest: int, needed: frozenset[ObjectKey]
) -> list[ObjectKey]:
    """Say which ActionSets of a blueprint are more than its newest, the oldest first.

    One that runs several blueprints counts for each, and goes only when it is too many
    for all of them. Records of a schedule's backups are left to that schedule.
    """
    by_blueprint: dict[tuple[str, str], list[tuple[datetime, ObjectKey]]] = {}
    for key, ended in sets.items():
        if isinstance(ended, Ended) and not ended.is_record:
            for blueprint in ended.blueprints or ("",):
                dated = by_blueprint.setdefault((key.namespace, blueprint), [])
                dated.append((ended.ended_at, key))
    kept: set[ObjectKey] = set()
    old: list[tuple[datetime, ObjectKey]] = []
    for dated in by_blueprint.values():
        dated.sort(reverse=True)
        kept.update(key for _, key in dated[:newest])
        old += dated[newest:]
    return [
        key
        for key in dict.fromkeys(key for _, key in sorted(old))
        if key not in kept and key not in needed
    ]
