"""Children of composite resources: applied, given up, and, where they were there, adopted.

An object that another controller owns is refused. One that nobody controls is adopted: it is
marked, an event says so, and it stays there when the composite resource is deleted. It gets no
owner, so that no collection of garbage can take it. `kanister-py.io/adopt: Refuse` on a
Composition refuses it instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from kanister_py.controller.compositions.one_pass import Pass, digest
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
"""On an object that was there before: the UID of the composite resource that adopted it."""
ADOPT: Final = "kanister-py.io/adopt"
REFUSE: Final = "Refuse"


class Children:
    """Composed resources, as they are written for the composite resources that compose them."""

    def __init__(self, part: PartTools, seen: ObjectCache) -> None:
        self._cluster, self._tell = part.cluster, part.post_event
        self._seen = seen

    def refused(
        self, run: Pass, composed: Composed, observed: Mapping[str, Data], adopt: str
    ) -> dict[str, str]:
        """Say which resources cannot be had because the object is there, and is not ours."""
        found = {}
        for each in composed.resources:
            if each.name in observed or "generateName" in each.object["metadata"]:
                continue
            live = self._seen.find(_reference_of(each.object))
            if live is not None:
                why = self._why_not_ours(run, each, live, adopt)
                if why:
                    found[each.name] = why
        return found

    def _why_not_ours(self, run: Pass, each: ComposedResource, live: KubeObject, adopt: str) -> str:
        what = f"{live['kind']} {name_of(live)}"
        uid = run.metadata["uid"]
        owner = controller_of(live)
        if owner is not None:
            is_ours = owner.get("uid") == uid
            by = f"{owner.get('kind')} {owner.get('name')}"
            return "" if is_ours else f"{what} is controlled by {by}"
        mark = annotations_of(live).get(ADOPTED)
        if mark and mark != uid:
            return f"{what} was adopted by the composite resource {labels_of(live).get(COMPOSITE)}"
        is_ours = labels_of(live).get(COMPOSITE) == labels_of(each.object).get(COMPOSITE)
        if mark or (is_ours and resource_name_of(live) == each.name):
            return ""
        if adopt == REFUSE:
            return f"{what} is there already, and the Composition says {ADOPT}: {REFUSE}"
        run.adopted.add(each.name)
        return ""

    def apply_all(
        self,
        run: Pass,
        composed: Composed,
        observed: Mapping[str, Data],
        refused: Mapping[str, str],
    ) -> list[str]:
        """Make every resource what it shall be; give the names of those that cannot be."""
        manager = composed_manager(run.xr)
        before = run.applied_before
        unsynced: list[str] = []
        for each in composed.resources:
            live = observed.get(each.name)
            intent = digest(each.object)
            is_adopted = each.name in run.adopted or (live is not None and _is_adopted(live))
            wanted = _adopted(each.object, run.metadata["uid"]) if is_adopted else each.object
            if live is not None and before.get(each.name) == intent and has_fields(live, wanted):
                run.applied[each.name] = intent
                continue
            why = refused.get(each.name, "")
            if not why:
                try:
                    made = self._cluster.apply(wanted, field_manager=manager, force=True)
                except Invalid as error:
                    why = error.message
            if why:
                message = f'Cannot apply composed resource "{each.name}": {why}'
                self._tell(run.subject, WARNING, COMPOSE, message)
                unsynced.append(each.name)
                continue
            run.applied[each.name] = intent
            self._seen.remember(made, in_own_pass=False)
            if live is None or _version(made) != _version(live):
                run.changed = f"{made['kind']}/{name_of(made)}"
            if each.name in run.adopted:
                self._tell_of_adoption(run, made)
        return unsynced

    def _tell_of_adoption(self, run: Pass, made: KubeObject) -> None:
        message = (
            f"Adopted {made['kind']} {name_of(made)}, which was there and had no controller; it "
            f"stays there when {run.subject.kind} {run.subject.name} is deleted"
        )
        self._tell(run.subject, NORMAL, "AdoptResource", message)

    def give_up(self, composed: Composed, observed: Mapping[str, Data]) -> None:
        """Give up what is no longer desired: what was there before is left there."""
        desired = {each.name for each in composed.resources}
        self.release_adopted(obj for name, obj in observed.items() if name not in desired)
        for obj in (each.object for each in composed.deleted):
            labels, seen = labels_of(obj), obj
            try:
                if any(label in labels for label in OWNED_LABELS):
                    seen = self._patch(obj, {"labels": dict.fromkeys(OWNED_LABELS)})
            except NotFound:
                continue
            left = self._delete(seen, Propagation.FOREGROUND)
            if left is not None:
                self._seen.remember(left, in_own_pass=False)

    def take_along(self, run: Pass, objects: Iterable[Data]) -> None:
        """Delete what a composite resource owns, whose kind ends with it."""
        for obj in objects:
            owner = controller_of(obj) or {}
            is_ending = obj["metadata"].get("deletionTimestamp")
            if owner.get("uid") == run.metadata["uid"] and not is_ending:
                self._delete(obj, Propagation.BACKGROUND)

    def release_adopted(self, objects: Iterable[Data]) -> None:
        """Let go of what was there before, as it is now."""
        for obj in objects:
            if not _is_adopted(obj):
                continue
            metadata = {
                "labels": dict.fromkeys(OWNED_LABELS),
                "annotations": dict.fromkeys((ADOPTED, RESOURCE_NAME)),
            }
            with suppress(NotFound):
                self._seen.remember(self._patch(obj, metadata), in_own_pass=False)

    def _patch(self, obj: Data, metadata: Mapping[str, Any]) -> KubeObject:
        known = self._cluster.resource_for(obj["apiVersion"], obj["kind"])
        return self._cluster.patch(
            known.gvr, name_of(obj), {"metadata": metadata}, namespace=namespace_of(obj)
        )

    def _delete(self, obj: Data, propagation: Propagation) -> KubeObject | None:
        known = self._cluster.resource_for(obj["apiVersion"], obj["kind"])
        return delete_as_seen(self._cluster, known.gvr, obj, propagation)


def _reference_of(obj: Data) -> dict[str, str]:
    reference = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": name_of(obj)}
    return {**reference, "namespace": namespace_of(obj)}


def is_composed(obj: Data, uid: str) -> bool:
    """Say whether an object was composed, or adopted for `uid`, or has a controller."""
    mark = annotations_of(obj).get(ADOPTED)
    if mark:
        return bool(mark == uid)
    return controller_of(obj) is not None or bool(resource_name_of(obj))


def _is_adopted(obj: Data) -> bool:
    return ADOPTED in annotations_of(obj)


def _adopted(obj: Data, uid: str) -> dict[str, Any]:
    """Give an object with the mark of what was there before, and without us as its owner."""
    metadata = {**obj["metadata"], "annotations": {**annotations_of(obj), ADOPTED: uid}}
    owners = [each for each in owners_of(obj) if each.get("uid") != uid]
    metadata.pop("ownerReferences", None)
    if owners:
        metadata["ownerReferences"] = owners
    return {**obj, "metadata": metadata}


def _version(obj: Data) -> str:
    return str(obj["metadata"].get("resourceVersion") or "")
