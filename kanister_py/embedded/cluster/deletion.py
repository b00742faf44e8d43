"""Deletion of objects: grace periods, finalizers and garbage collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kanister_py.core.errors import NotFound
from kanister_py.core.kube.parts import namespace_of, owners_of, status_of
from kanister_py.core.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from kanister_py.embedded.cluster.catalogue import Catalogue, KindEntry
from kanister_py.embedded.cluster.store import Store, TableKey, place_of
from kanister_py.ports.cluster import KubeObject, Propagation

_FOREGROUND: Final = "foregroundDeletion"
_ORPHANED_BY_DEFAULT: Final = frozenset({"Job.batch", "ReplicationController"})


class Deletions:
    """Deletion and garbage collection. The caller holds the cluster's lock.

    The work of controllers happens at once: with an object, its dependents are deleted, and so
    are the objects in a deleted namespace or of a deleted definition.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        store: Store,
        later: Callable[[int], str],
        grace: Callable[[KubeObject, int | None], int],
    ) -> None:
        self._catalogue = catalogue
        self._store = store
        self._later = later
        self._grace = grace
        self._dependents_by_uid: dict[str, set[tuple[TableKey, str, str]]] = {}

    def index_owners(
        self, entry: KindEntry, new: KubeObject | None, before: KubeObject | None
    ) -> None:
        """Update the index of dependents after the owner references of an object changed."""
        had = before["metadata"].get("ownerReferences") if before else None
        has = new["metadata"].get("ownerReferences") if new else None
        if had == has:
            return
        for owner in had or ():
            dependents = self._dependents_by_uid.get(owner["uid"])
            if dependents is not None and before is not None:
                dependents.discard((entry.key, *place_of(before)))
                if not dependents:
                    del self._dependents_by_uid[owner["uid"]]
        if new is not None:
            for owner in has or ():
                self._dependents_by_uid.setdefault(owner["uid"], set()).add(
                    (entry.key, *place_of(new))
                )

    def delete(
        self,
        entry: KindEntry,
        before: KubeObject,
        grace_period_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> KubeObject:
        """Mark an object as deleted, and remove it if nothing blocks its deletion."""
        if propagation is None:
            orphans = entry.kind.group_kind in _ORPHANED_BY_DEFAULT
            propagation = Propagation.ORPHAN if orphans else Propagation.BACKGROUND
        uid = before["metadata"]["uid"]
        if propagation is Propagation.ORPHAN:
            for dependent, obj in self._dependents(uid):
                self._remove_owners(dependent, obj, lambda owner: owner["uid"] != uid)
        new = self._marked(entry, before, grace_period_seconds, propagation)
        if new != before:
            if self.can_be_removed(entry, new):
                # It is removed at once, so watches get no event of the mark.
                return self.remove(entry, _renewed(before), before)
            self._store.put(entry.key, new, before)
        self._delete_content(entry, new)
        current = self._store.table(entry.key).get(*place_of(new))
        if current is None:
            return new
        if self.can_be_removed(entry, current):
            return self.remove(entry, _renewed(current), current)
        return current

    def _marked(
        self,
        entry: KindEntry,
        before: KubeObject,
        grace_period_seconds: int | None,
        propagation: Propagation,
    ) -> KubeObject:
        new = _renewed(before)
        metadata = new["metadata"]
        grace = self._grace(before, grace_period_seconds)
        is_first = "deletionTimestamp" not in metadata
        if is_first or grace < metadata.get("deletionGracePeriodSeconds", 0):
            metadata["deletionTimestamp"] = self._later(grace)
            metadata["deletionGracePeriodSeconds"] = grace
        if is_first and entry.is_counted:
            metadata["generation"] = metadata.get("generation", 1) + 1
        if propagation is Propagation.FOREGROUND and self._dependents_by_uid.get(metadata["uid"]):
            finalizers = metadata.get("finalizers") or ()
            if _FOREGROUND not in finalizers:
                metadata["finalizers"] = [*finalizers, _FOREGROUND]
        if entry.kind.gvr == NAMESPACES:
            new["status"] = {**status_of(new), "phase": "Terminating"}
        return new

    def _delete_content(self, entry: KindEntry, obj: KubeObject) -> None:
        metadata = obj["metadata"]
        if entry.kind.gvr == NAMESPACES:
            for stored_kind in self._catalogue:
                for content in list(self._store.table(stored_kind.key).scan(metadata["name"])):
                    if stored_kind.kind.is_namespaced:
                        self._delete_if_present(stored_kind, content)
        elif entry.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            for stored_kind in self._catalogue:
                if stored_kind.definition == metadata["name"]:
                    for content in list(self._store.table(stored_kind.key).scan("")):
                        self._delete_if_present(stored_kind, content)
        if _FOREGROUND in (metadata.get("finalizers") or ()):
            for dependent, content in self._dependents(metadata["uid"]):
                self._release(dependent, content, metadata["uid"], Propagation.FOREGROUND)
            self._end_foreground(entry, place_of(obj))

    def _delete_if_present(self, entry: KindEntry, obj: KubeObject) -> None:
        current = self._store.table(entry.key).get(*place_of(obj))
        # Several versions of a kind share a table, so the object may be deleted or marked already.
        if current is not None and "deletionTimestamp" not in current["metadata"]:
            self.delete(entry, current, propagation=Propagation.BACKGROUND)

    def _is_empty(self, entry: KindEntry, obj: KubeObject) -> bool:
        name = obj["metadata"]["name"]
        if entry.kind.gvr == NAMESPACES:
            return not any(table.rows.get(name) for table in self._store.tables.values())
        if entry.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            return not any(
                self._store.table(served.key).rows
                for served in self._catalogue
                if served.definition == name
            )
        return True

    def can_be_removed(self, entry: KindEntry, obj: KubeObject) -> bool:
        """Check that no finalizer, grace period or content blocks the removal of an object."""
        metadata = obj["metadata"]
        if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
            return False
        return self._is_empty(entry, obj)

    def remove(self, entry: KindEntry, last: KubeObject, before: KubeObject) -> KubeObject:
        """Remove an object and its dependents without other owners."""
        metadata = last["metadata"]
        self._store.remove(entry.key, last, before)
        self.index_owners(entry, None, last)
        if entry.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            self._catalogue.undefine(metadata["name"])
        for dependent, obj in self._dependents(metadata["uid"]):
            self._release(dependent, obj, metadata["uid"], Propagation.BACKGROUND)
        for owner in metadata.get("ownerReferences") or ():
            parent = self._find_owner(owner, metadata.get("namespace", ""))
            if parent is not None:
                self._end_foreground(parent[0], place_of(parent[1]))
        self._finish_terminating_parents(entry, metadata)
        return last

    def _release(
        self, entry: KindEntry, obj: KubeObject, owner_uid: str, propagation: Propagation
    ) -> None:
        """Delete a dependent, or remove the owner reference if it has another owner."""
        namespace = namespace_of(obj)
        other_owners = [
            owner
            for owner in owners_of(obj)
            if owner["uid"] != owner_uid and self._find_owner(owner, namespace) is not None
        ]
        if other_owners:
            self._remove_owners(entry, obj, lambda owner: owner["uid"] != owner_uid)
        elif "deletionTimestamp" not in obj["metadata"]:
            self.delete(entry, obj, propagation=propagation)

    def _remove_owners(
        self, entry: KindEntry, obj: KubeObject, keeps: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        new = _renewed(obj)
        metadata = new["metadata"]
        metadata["ownerReferences"] = [o for o in metadata["ownerReferences"] if keeps(o)]
        if not metadata["ownerReferences"]:
            del metadata["ownerReferences"]
        self.index_owners(entry, new, obj)
        self._store.put(entry.key, new, obj)

    def _end_foreground(self, entry: KindEntry, place: tuple[str, str]) -> None:
        """Remove an owner in foreground deletion once it has no dependents."""
        obj = self._store.table(entry.key).get(*place)
        if obj is None or self._dependents_by_uid.get(obj["metadata"]["uid"]):
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        if _FOREGROUND not in finalizers:
            return
        new = _renewed(obj)
        new["metadata"]["finalizers"] = [f for f in finalizers if f != _FOREGROUND]
        if not new["metadata"]["finalizers"]:
            del new["metadata"]["finalizers"]
        if self.can_be_removed(entry, new):
            self.remove(entry, new, obj)
        else:
            self._store.put(entry.key, new, obj)

    def _finish_terminating_parents(self, entry: KindEntry, metadata: Mapping[str, Any]) -> None:
        """Remove a terminating namespace or definition once it is empty."""
        waiting = []
        if metadata.get("namespace"):
            waiting.append((NAMESPACES, metadata["namespace"]))
        if entry.definition:
            waiting.append((CUSTOM_RESOURCE_DEFINITIONS, entry.definition))
        for gvr, name in waiting:
            holder = self._catalogue.at(gvr)
            obj = self._store.table(holder.key).get("", name)
            if obj and "deletionTimestamp" in obj["metadata"] and self.can_be_removed(holder, obj):
                self.remove(holder, _renewed(obj), obj)

    def _dependents(self, uid: str) -> Sequence[tuple[KindEntry, KubeObject]]:
        dependents = []
        for key, namespace, name in sorted(self._dependents_by_uid.get(uid, ())):
            obj = self._store.table(key).get(namespace, name)
            if obj is not None:
                dependents.append((self._catalogue.of(obj["apiVersion"], obj["kind"]), obj))
        return dependents

    def _find_owner(
        self, owner: Mapping[str, Any], namespace: str
    ) -> tuple[KindEntry, KubeObject] | None:
        try:
            entry = self._catalogue.of(owner["apiVersion"], owner["kind"])
        except NotFound:
            return None
        place = namespace if entry.kind.is_namespaced else ""
        obj = self._store.table(entry.key).get(place, owner["name"])
        if obj is None or obj["metadata"]["uid"] != owner["uid"]:
            return None
        return entry, obj


def _renewed(obj: KubeObject) -> KubeObject:
    """Return a shallow copy of an object whose metadata can be changed."""
    return {**obj, "metadata": {**obj["metadata"]}}
