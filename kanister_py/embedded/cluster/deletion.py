"""Deletion of objects: grace, finalizers, and the end of what they owned or held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kanister_py.core.errors import NotFound
from kanister_py.core.kube.parts import namespace_of, owners_of, status_of
from kanister_py.core.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from kanister_py.embedded.cluster.catalogue import Catalogue, Known
from kanister_py.embedded.cluster.store import Store, TableKey, place_of
from kanister_py.ports.cluster import KubeObject, Propagation

_FOREGROUND: Final = "foregroundDeletion"
_ORPHANED_BY_DEFAULT: Final = frozenset({"Job.batch", "ReplicationController"})


class Deletions:
    """The end of objects. The caller holds the cluster's lock.

    What a real cluster's controllers do some time later happens here at once:
    what was owned by a deleted object alone goes with it, and so does what was
    in a deleted namespace or of a deleted definition.
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
        self._owned: dict[str, set[tuple[TableKey, str, str]]] = {}

    def note_owners(self, known: Known, new: KubeObject | None, before: KubeObject | None) -> None:
        """Remember who owns an object now, and forget who did before."""
        had = before["metadata"].get("ownerReferences") if before else None
        has = new["metadata"].get("ownerReferences") if new else None
        if had == has:
            return
        for owner in had or ():
            held = self._owned.get(owner["uid"])
            if held is not None and before is not None:
                held.discard((known.key, *place_of(before)))
                if not held:
                    del self._owned[owner["uid"]]
        if new is not None:
            for owner in has or ():
                self._owned.setdefault(owner["uid"], set()).add((known.key, *place_of(new)))

    def delete(
        self,
        known: Known,
        before: KubeObject,
        grace_period_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> KubeObject:
        """Begin the end of an object, and finish it where nothing holds it back."""
        if propagation is None:
            orphans = known.kind.group_kind in _ORPHANED_BY_DEFAULT
            propagation = Propagation.ORPHAN if orphans else Propagation.BACKGROUND
        uid = before["metadata"]["uid"]
        if propagation is Propagation.ORPHAN:
            for dependent, obj in self._dependents(uid):
                self._disown(dependent, obj, lambda owner: owner["uid"] != uid)
        new = self._marked(known, before, grace_period_seconds, propagation)
        if new != before:
            if self.is_free(known, new):
                # Gone at once, it never was seen as one that is going.
                return self.remove(known, _renewed(before), before)
            self._store.put(known.key, new, before)
        self._let_go_of_content(known, new)
        here = self._store.table(known.key).get(*place_of(new))
        if here is None:
            return new
        if self.is_free(known, here):
            return self.remove(known, _renewed(here), here)
        return here

    def _marked(
        self,
        known: Known,
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
        if is_first and known.is_counted:
            metadata["generation"] = metadata.get("generation", 1) + 1
        if propagation is Propagation.FOREGROUND and self._owned.get(metadata["uid"]):
            finalizers = metadata.get("finalizers") or ()
            if _FOREGROUND not in finalizers:
                metadata["finalizers"] = [*finalizers, _FOREGROUND]
        if known.kind.gvr == NAMESPACES:
            new["status"] = {**status_of(new), "phase": "Terminating"}
        return new

    def _let_go_of_content(self, known: Known, obj: KubeObject) -> None:
        metadata = obj["metadata"]
        if known.kind.gvr == NAMESPACES:
            for held in self._catalogue:
                for content in list(self._store.table(held.key).scan(metadata["name"])):
                    if held.kind.is_namespaced:
                        self._delete_if_there(held, content)
        elif known.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            for held in self._catalogue:
                if held.definition == metadata["name"]:
                    for content in list(self._store.table(held.key).scan("")):
                        self._delete_if_there(held, content)
        if _FOREGROUND in (metadata.get("finalizers") or ()):
            for dependent, content in self._dependents(metadata["uid"]):
                self._release(dependent, content, metadata["uid"], Propagation.FOREGROUND)
            self._end_foreground(known, place_of(obj))

    def _delete_if_there(self, known: Known, obj: KubeObject) -> None:
        here = self._store.table(known.key).get(*place_of(obj))
        # Two served versions of one kind share a table: the other one may have
        # done it, and what is marked already needs no second mark.
        if here is not None and "deletionTimestamp" not in here["metadata"]:
            self.delete(known, here, propagation=Propagation.BACKGROUND)

    def _is_empty(self, known: Known, obj: KubeObject) -> bool:
        name = obj["metadata"]["name"]
        if known.kind.gvr == NAMESPACES:
            return not any(table.rows.get(name) for table in self._store.tables.values())
        if known.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            return not any(
                self._store.table(served.key).rows
                for served in self._catalogue
                if served.definition == name
            )
        return True

    def is_free(self, known: Known, obj: KubeObject) -> bool:
        """Say whether nothing holds back the end of an object any more."""
        metadata = obj["metadata"]
        if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
            return False
        return self._is_empty(known, obj)

    def remove(self, known: Known, last: KubeObject, before: KubeObject) -> KubeObject:
        """Let an object go, and with it what depended on it alone."""
        metadata = last["metadata"]
        self._store.remove(known.key, last, before)
        self.note_owners(known, None, last)
        if known.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            self._catalogue.undefine(metadata["name"])
        for dependent, obj in self._dependents(metadata["uid"]):
            self._release(dependent, obj, metadata["uid"], Propagation.BACKGROUND)
        for owner in metadata.get("ownerReferences") or ():
            found = self._find_owner(owner, metadata.get("namespace", ""))
            if found is not None:
                self._end_foreground(found[0], place_of(found[1]))
        self._finish_holders(known, metadata)
        return last

    def _release(
        self, known: Known, obj: KubeObject, owner_uid: str, propagation: Propagation
    ) -> None:
        """Delete what has no other owner left; from the rest, take the reference."""
        namespace = namespace_of(obj)
        others = [
            owner
            for owner in owners_of(obj)
            if owner["uid"] != owner_uid and self._find_owner(owner, namespace) is not None
        ]
        if others:
            self._disown(known, obj, lambda owner: owner["uid"] != owner_uid)
        elif "deletionTimestamp" not in obj["metadata"]:
            self.delete(known, obj, propagation=propagation)

    def _disown(
        self, known: Known, obj: KubeObject, keeps: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        new = _renewed(obj)
        metadata = new["metadata"]
        metadata["ownerReferences"] = [o for o in metadata["ownerReferences"] if keeps(o)]
        if not metadata["ownerReferences"]:
            del metadata["ownerReferences"]
        self.note_owners(known, new, obj)
        self._store.put(known.key, new, obj)

    def _end_foreground(self, known: Known, place: tuple[str, str]) -> None:
        """Let go of an owner that waited for the last of what it owned."""
        obj = self._store.table(known.key).get(*place)
        if obj is None or self._owned.get(obj["metadata"]["uid"]):
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        if _FOREGROUND not in finalizers:
            return
        new = _renewed(obj)
        new["metadata"]["finalizers"] = [f for f in finalizers if f != _FOREGROUND]
        if not new["metadata"]["finalizers"]:
            del new["metadata"]["finalizers"]
        if self.is_free(known, new):
            self.remove(known, new, obj)
        else:
            self._store.put(known.key, new, obj)

    def _finish_holders(self, known: Known, metadata: Mapping[str, Any]) -> None:
        """Let go of a namespace or definition that waited for its last object."""
        waiting = []
        if metadata.get("namespace"):
            waiting.append((NAMESPACES, metadata["namespace"]))
        if known.definition:
            waiting.append((CUSTOM_RESOURCE_DEFINITIONS, known.definition))
        for gvr, name in waiting:
            holder = self._catalogue.at(gvr)
            obj = self._store.table(holder.key).get("", name)
            if obj and "deletionTimestamp" in obj["metadata"] and self.is_free(holder, obj):
                self.remove(holder, _renewed(obj), obj)

    def _dependents(self, uid: str) -> Sequence[tuple[Known, KubeObject]]:
        found = []
        for key, namespace, name in sorted(self._owned.get(uid, ())):
            obj = self._store.table(key).get(namespace, name)
            if obj is not None:
                found.append((self._catalogue.of(obj["apiVersion"], obj["kind"]), obj))
        return found

    def _find_owner(
        self, owner: Mapping[str, Any], namespace: str
    ) -> tuple[Known, KubeObject] | None:
        try:
            known = self._catalogue.of(owner["apiVersion"], owner["kind"])
        except NotFound:
            return None
        place = namespace if known.kind.is_namespaced else ""
        obj = self._store.table(known.key).get(place, owner["name"])
        if obj is None or obj["metadata"]["uid"] != owner["uid"]:
            return None
        return known, obj


def _renewed(obj: KubeObject) -> KubeObject:
    """Begin a new state of an object: its metadata may be written, all else is shared."""
    return {**obj, "metadata": {**obj["metadata"]}}
