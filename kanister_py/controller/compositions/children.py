"""Composed resources: applying, deleting and adopting them.

An existing object with another controller is a conflict. An existing object without a controller
is adopted: it gets an annotation and an event, and is kept when the composite resource is deleted.
It gets no owner reference, so that it is not garbage collected. `kanister-py.io/adopt: Refuse` on
the Composition makes it a conflict instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from kanister_py.controller.compositions.reconciliation import Reconciliation, digest
from kanister_py.controller.machine.events import NORMAL, WARNING
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.writing import delete_as_seen, has_fields
from kanister_py.core.compositions.desired import Composed, ComposedResource
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.naming import (
    COMPOSITE,
    OWNED_LABELS,
    RESOURCE_NAME,
    composed_manager,
    resource_name_of,
)
from kanister_py.core.compositions.results import COMPOSE
from kanister_py.core.errors import Invalid, NotFound
from kanister_py.core.kube.parts import (
    annotations_of,
    controller_of,
    labels_of,
    name_of,
    namespace_of,
    owners_of,
)
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.ports.cluster import KubeObject, Propagation

ADOPTED: Final = "kanister-py.io/adopted"
"""Annotation of an adopted object: the UID of the composite resource that adopted it."""
ADOPT: Final = "kanister-py.io/adopt"
REFUSE: Final = "Refuse"


class Children:
    """Writer of the composed resources of composite resources."""

    def __init__(self, part: PartTools, cache: ObjectCache) -> None:
        self._cluster, self._post_event = part.cluster, part.post_event
        self._cache = cache

    def find_conflicts(
        self, run: Reconciliation, composed: Composed, observed: Mapping[str, Data], adopt: str
    ) -> dict[str, str]:
        """Map resources whose objects belong to another owner to messages about it."""
        conflicts = {}
        for resource in composed.resources:
            if resource.name in observed or "generateName" in resource.object["metadata"]:
                continue
            live = self._cache.find(_reference_of(resource.object))
            if live is not None:
                conflict = self._conflict_of(run, resource, live, adopt)
                if conflict:
                    conflicts[resource.name] = conflict
        return conflicts

    def _conflict_of(
        self, run: Reconciliation, resource: ComposedResource, live: KubeObject, adopt: str
    ) -> str:
        described = f"{live['kind']} {name_of(live)}"
        uid = run.metadata["uid"]
        owner = controller_of(live)
        if owner is not None:
            is_ours = owner.get("uid") == uid
            return (
                ""
                if is_ours
                else f"{described} is controlled by {owner.get('kind')} {owner.get('name')}"
            )
        mark = annotations_of(live).get(ADOPTED)
        if mark and mark != uid:
            adopter = labels_of(live).get(COMPOSITE)
            return f"{described} was adopted by the composite resource {adopter}"
        is_ours = labels_of(live).get(COMPOSITE) == labels_of(resource.object).get(COMPOSITE)
        if mark or (is_ours and resource_name_of(live) == resource.name):
            return ""
        if adopt == REFUSE:
            return f"{described} exists already, and the Composition has {ADOPT}: {REFUSE}"
        run.adopted.add(resource.name)
        return ""

    def apply_all(
        self,
        run: Reconciliation,
        composed: Composed,
        observed: Mapping[str, Data],
        conflicts: Mapping[str, str],
    ) -> list[str]:
        """Apply the desired resources; return the names of those that could not be applied."""
        manager = composed_manager(run.xr)
        before = run.applied_before
        unsynced: list[str] = []
        for resource in composed.resources:
            live = observed.get(resource.name)
            intent = digest(resource.object)
            is_adopted = resource.name in run.adopted or (live is not None and _is_adopted(live))
            desired = (
                _adopted(resource.object, run.metadata["uid"]) if is_adopted else resource.object
            )
            if (
                live is not None
                and before.get(resource.name) == intent
                and has_fields(live, desired)
            ):
                run.applied[resource.name] = intent
                continue
            problem = conflicts.get(resource.name, "")
            if not problem:
                try:
                    applied = self._cluster.apply(desired, field_manager=manager, force=True)
                except Invalid as error:
                    problem = error.message
            if problem:
                message = f'Cannot apply composed resource "{resource.name}": {problem}'
                self._post_event(run.subject, WARNING, COMPOSE, message)
                unsynced.append(resource.name)
                continue
            run.applied[resource.name] = intent
            self._cache.remember(applied, in_own_pass=False)
            if live is None or _version(applied) != _version(live):
                run.changed = f"{applied['kind']}/{name_of(applied)}"
            if resource.name in run.adopted:
                self._report_adoption(run, applied)
        return unsynced

    def _report_adoption(self, run: Reconciliation, obj: KubeObject) -> None:
        message = (
            f"Adopted {obj['kind']} {name_of(obj)}, which existed without a controller; it is kept "
            f"when {run.subject.kind} {run.subject.name} is deleted"
        )
        self._post_event(run.subject, NORMAL, "AdoptResource", message)

    def delete_undesired(self, composed: Composed, observed: Mapping[str, Data]) -> None:
        """Delete resources that are no longer desired; release the adopted ones."""
        desired = {resource.name for resource in composed.resources}
        self.release_adopted(obj for name, obj in observed.items() if name not in desired)
        for obj in (resource.object for resource in composed.deleted):
            labels, latest = labels_of(obj), obj
            try:
                if any(label in labels for label in OWNED_LABELS):
                    latest = self._patch(obj, {"labels": dict.fromkeys(OWNED_LABELS)})
            except NotFound:
                continue
            left = self._delete(latest, Propagation.FOREGROUND)
            if left is not None:
                self._cache.remember(left, in_own_pass=False)

    def delete_owned(self, run: Reconciliation, objects: Iterable[Data]) -> None:
        """Delete the objects of a composite resource whose kind is being deleted."""
        for obj in objects:
            owner = controller_of(obj) or {}
            is_ending = obj["metadata"].get("deletionTimestamp")
            if owner.get("uid") == run.metadata["uid"] and not is_ending:
                self._delete(obj, Propagation.BACKGROUND)

    def release_adopted(self, objects: Iterable[Data]) -> None:
        """Remove our labels and annotations from adopted objects, and keep the objects."""
        for obj in objects:
            if not _is_adopted(obj):
                continue
            metadata = {
                "labels": dict.fromkeys(OWNED_LABELS),
                "annotations": dict.fromkeys((ADOPTED, RESOURCE_NAME)),
            }
            with suppress(NotFound):
                self._cache.remember(self._patch(obj, metadata), in_own_pass=False)

    def _patch(self, obj: Data, metadata: Mapping[str, Any]) -> KubeObject:
        resource = self._cluster.resource_for(obj["apiVersion"], obj["kind"])
        return self._cluster.patch(
            resource.gvr, name_of(obj), {"metadata": metadata}, namespace=namespace_of(obj)
        )

    def _delete(self, obj: Data, propagation: Propagation) -> KubeObject | None:
        resource = self._cluster.resource_for(obj["apiVersion"], obj["kind"])
        return delete_as_seen(self._cluster, resource.gvr, obj, propagation)


def _reference_of(obj: Data) -> dict[str, str]:
    reference = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": name_of(obj)}
    return {**reference, "namespace": namespace_of(obj)}


def is_composed(obj: Data, uid: str) -> bool:
    """Return whether an object was composed, was adopted for `uid` or has a controller."""
    mark = annotations_of(obj).get(ADOPTED)
    if mark:
        return bool(mark == uid)
    return controller_of(obj) is not None or bool(resource_name_of(obj))


def _is_adopted(obj: Data) -> bool:
    return ADOPTED in annotations_of(obj)


def _adopted(obj: Data, uid: str) -> dict[str, Any]:
    """Return a copy with the annotation of adopted objects, and without our owner reference."""
    metadata = {**obj["metadata"], "annotations": {**annotations_of(obj), ADOPTED: uid}}
    owners = [owner for owner in owners_of(obj) if owner.get("uid") != uid]
    metadata.pop("ownerReferences", None)
    if owners:
        metadata["ownerReferences"] = owners
    return {**obj, "metadata": metadata}


def _version(obj: Data) -> str:
    return str(obj["metadata"].get("resourceVersion") or "")
