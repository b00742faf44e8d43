"""Writing status, conditions, finalizers and objects, only if something changes."""

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


def has_fields(live: Any, desired: Any) -> bool:
    """Return whether a live object has all fields of a desired one.

    Additional fields are ignored, because the cluster fills in defaults. Lists must have the
    same length: an entry that is not desired has to be removed.
    """
    if live == desired:
        return True
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(
            has_fields(live.get(key), value) for key, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(live) == len(desired)
            and all(has_fields(entry, value) for entry, value in zip(live, desired, strict=True))
        )
    # The cluster may drop a field with an empty value.
    return live is None and desired in ("", False, 0)


def apply_if_changed(
    cluster: Cluster, resource: GroupVersionResource, desired: dict[str, Any]
) -> KubeObject:
    """Apply an object, unless the live one has all its fields; return the live object."""
    live = find(cluster, resource, desired["metadata"]["name"], namespace_of(desired))
    if live is not None and has_fields(live, desired):
        return live
    return cluster.apply(desired, field_manager=FIELD_MANAGER, force=True)


def delete_as_seen(
    cluster: Cluster,
    resource: GroupVersionResource,
    obj: Mapping[str, Any],
    propagation: Propagation | None = None,
) -> KubeObject | None:
    """Delete an object in the version that was read. Returns the response, or None if not found.

    Raises `Conflict` if another client, such as a new leader, has changed it in between.
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
    """Build a condition. Its transition time is added when it is written."""
    fields = {"type": kind, "status": status, "reason": reason}
    return {**fields, "message": message} if message else fields


def condition_from_problem(kind: str, why_not: str, good: str, bad: str) -> dict[str, Any]:
    """Build a condition that is False with the message `why_not`, or True if that is empty.

    `good` and `bad` are the reasons for True and False.
    """
    return condition(kind, "False", bad, why_not) if why_not else condition(kind, "True", good)


def with_conditions(
    status: Mapping[str, Any],
    conditions: Iterable[Mapping[str, Any]],
    *,
    now: datetime,
    generation: int,
) -> dict[str, Any]:
    """Return a status with conditions. A transition time changes only if the status changes."""
    by_type = {present["type"]: present for present in status.get("conditions") or ()}
    dated = {"observedGeneration": generation, "lastTransitionTime": text_of_time(now)}
    for new in conditions:
        merge_condition(by_type, {**new, **dated}, kept_by=STATUS_FIELD)
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
    """Write conditions, and `status` if it is not None. Returns the object with its new status.

    Returns `obj` itself if nothing had to be written. If `patched` is set to the resource of the
    object, only the conditions are patched, so that other fields may change at the same time.
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


def add_finalizer(cluster: Cluster, obj: KubeObject, finalizer: str) -> KubeObject:
    """Add a finalizer to an object, unless it has it. Returns the resulting object."""
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer in finalizers:
        return obj
    extended = {**metadata, "finalizers": [*finalizers, finalizer]}
    return cluster.replace({**obj, "metadata": extended}, field_manager=FIELD_MANAGER)


def remove_finalizers(cluster: Cluster, obj: KubeObject, *finalizers: str) -> None:
    """Remove finalizers from an object that is being deleted."""
    metadata = obj["metadata"]
    left = [
        finalizer for finalizer in metadata.get("finalizers") or () if finalizer not in finalizers
    ]
    with suppress(NotFound):
        cluster.replace({**obj, "metadata": {**metadata, "finalizers": left}})
