"""Writing of status, conditions, finalizers and objects: only what is not there already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from kanister_py.core.actionsets.status import text_of_time
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.parts import (
    STATUS_FIELD,
    merge_condition,
    namespace_of,
    status_of,
)
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject, Propagation, find

FIELD_MANAGER: Final = "kanister-py"


def says(live: Any, wanted: Any) -> bool:
    """Say whether everything that is wanted stands in an object, whatever else does.

    A cluster fills in defaults, so what is not wanted counts for nothing. Lists must be
    of one length: what one leaves out of a list is meant to go.
    """
    if live == wanted:
        return True
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            says(live.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(says(entry, value) for entry, value in zip(live, wanted, strict=True))
        )
    # What is wanted empty may be left out.
    return live is None and wanted in ("", False, 0)


def ensure(cluster: Cluster, resource: GroupVersionResource, wanted: dict[str, Any]) -> KubeObject:
    """Make an object say what it shall; one that already does is not written."""
    live = find(cluster, resource, wanted["metadata"]["name"], namespace_of(wanted))
    if live is not None and says(live, wanted):
        return live
    return cluster.apply(wanted, field_manager=FIELD_MANAGER, force=True)


def delete_as_seen(
    cluster: Cluster,
    resource: GroupVersionResource,
    obj: Mapping[str, Any],
    propagation: Propagation | None = None,
) -> KubeObject | None:
    """Delete an object as it was seen, and give what is left of it; None if it was gone.

    Who has changed it meanwhile had a reason, be it another leader: `Conflict`.
    """
    metadata = obj["metadata"]
    try:
        return cluster.delete(
            resource,
            metadata["name"],
            namespace=metadata.get("namespace", ""),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            propagation=propagation,
        )
    except NotFound:
        return None


# Conditions


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    """Say one thing; when it began to be so is added where it is written."""
    made = {"type": kind, "status": status, "reason": reason}
    return {**made, "message": message} if message else made


def judgement(kind: str, why_not: str, good: str, bad: str) -> dict[str, Any]:
    """Say whether something is so: not if there is a reason against it."""
    return condition(kind, "False", bad, why_not) if why_not else condition(kind, "True", good)


def with_conditions(
    status: Mapping[str, Any],
    conditions: Iterable[Mapping[str, Any]],
    *,
    now: datetime,
    generation: int,
) -> dict[str, Any]:
    """Put conditions into a status. Its time is that of the last change of its status."""
    by_type = {each["type"]: each for each in status.get("conditions") or ()}
    dated = {"observedGeneration": generation, "lastTransitionTime": text_of_time(now)}
    for each in conditions:
        merge_condition(by_type, {**each, **dated}, kept_by=STATUS_FIELD)
    return {**status, "conditions": list(by_type.values())}


def write_status(
    cluster: Cluster,
    clock: Clock,
    obj: KubeObject,
    conditions: Iterable[Mapping[str, Any]],
    status: Mapping[str, Any] | None = None,
    *,
    patched: GroupVersionResource | None = None,
) -> KubeObject:
    """Write conditions into the status of an object as it was read, or into the one it shall have.

    Gives the object as it is then: the same one if nothing had to be written. With
    `patched`, its resource, conditions alone are written: the rest may change meanwhile.
    """
    before = status_of(obj)
    desired = with_conditions(
        before if status is None else status,
        conditions,
        now=clock.now(),
        generation=obj["metadata"].get("generation", 0),
    )
    if desired == before:
        return obj
    if patched is None:
        return cluster.replace_status({**obj, "status": desired})
    return cluster.patch(
        patched,
        obj["metadata"]["name"],
        {"status": {"conditions": desired["conditions"]}},
        namespace=namespace_of(obj),
        subresource="status",
    )


# Finalizers


def hold(cluster: Cluster, obj: KubeObject, finalizer: str) -> KubeObject:
    """Have an object stay until it is let go, should it be deleted."""
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer in finalizers:
        return obj
    held = {**metadata, "finalizers": [*finalizers, finalizer]}
    return cluster.replace({**obj, "metadata": held}, field_manager=FIELD_MANAGER)


def let_go(cluster: Cluster, obj: KubeObject, *finalizers: str) -> None:
    """Take finalizers off an object that is on its way out."""
    metadata = obj["metadata"]
    left = [
        finalizer for finalizer in metadata.get("finalizers") or () if finalizer not in finalizers
    ]
    with suppress(NotFound):
        cluster.replace({**obj, "metadata": {**metadata, "finalizers": left}})
