"""Patches and scales of objects in memory, and checks of writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kanister_py.core.errors import (
    BadRequest,
    Cause,
    Conflict,
    Invalid,
    NotFound,
    UnsupportedMediaType,
)
from kanister_py.core.kube import admission
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.parts import spec_of, status_of
from kanister_py.core.kube.patches import (
    InvalidPatch,
    json_patched,
    merge_patched,
    strategic_patched,
)
from kanister_py.core.kube.selectors import label_selector_of
from kanister_py.embedded.cluster.catalogue import KindEntry
from kanister_py.ports.cluster import KubeObject, Patch, PatchType

# Metadata that only the cluster writes. Values in requests are ignored.
_KEPT_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
    "selfLink",
)


def patched(
    entry: KindEntry, existing: KubeObject, patch: Patch, patch_type: PatchType
) -> KubeObject:
    """Return the object after a patch. `existing` may be changed in place."""
    if patch_type is PatchType.JSON:
        if isinstance(patch, Mapping):
            raise BadRequest("a JSON patch is a list of operations")
        try:
            result: KubeObject = json_patched(existing, patch)
        except InvalidPatch as error:
            raise Invalid(error.message, causes=[Cause("", error.message)]) from error
        return result
    if not isinstance(patch, Mapping):
        raise BadRequest(f"{patch_type} is an object, not a list of operations")
    if patch_type is PatchType.MERGE:
        merged: KubeObject = merge_patched(existing, patch)
        return merged
    if not entry.kind.is_builtin:
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, "
            "application/apply-patch+yaml"
        )
    try:
        return strategic_patched(existing, patch, entry.rules)
    except InvalidPatch as error:
        raise BadRequest(error.message) from error


def combined(entry: KindEntry, before: KubeObject, new: KubeObject, subresource: str) -> KubeObject:
    """Combine a written object with the fields that the write may not change."""
    if subresource == "status":
        # The rest of the object is unchanged and shared with the stored one.
        result: KubeObject = {**before, "metadata": {**before["metadata"]}}
        result.pop("status", None)
        if new.get("status") is not None:
            result["status"] = new["status"]
        return result
    if entry.kind.has_status:
        new.pop("status", None)
        if "status" in before:
            new["status"] = before["status"]
    # Objects keep the version in which they were created: a kind has one stored version.
    new["apiVersion"], new["kind"] = before["apiVersion"], before["kind"]
    metadata, old = new["metadata"], before["metadata"]
    for key in _KEPT_METADATA:
        if key in old:
            metadata[key] = old[key]
        else:
            metadata.pop(key, None)
    return new


def applied_part(entry: KindEntry, applied: KubeObject, subresource: str) -> KubeObject:
    """Return the fields that an apply to a subresource can set."""
    if subresource == "status":
        metadata = applied["metadata"]
        part: KubeObject = {
            key: applied[key] for key in ("apiVersion", "kind", "status") if key in applied
        }
        kept = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
        return {**part, "metadata": kept}
    if entry.kind.has_status:
        applied.pop("status", None)
    return applied


def changes_spec(entry: KindEntry, new: KubeObject, before: KubeObject) -> bool:
    """Check whether a write changes more than metadata and status."""
    left_out = {"metadata", "apiVersion"} | ({"status"} if entry.kind.has_status else set())
    return any(new.get(key) != before.get(key) for key in {**new, **before} if key not in left_out)


def check_preconditions(entry: KindEntry, before: KubeObject, uid: str, version: str) -> None:
    """Raise `Conflict` if the UID or resource version of a write does not match."""
    metadata = before["metadata"]
    if uid and uid != metadata["uid"]:
        raise _conflict(entry, metadata["name"], _precondition("UID", uid, metadata["uid"]))
    if version and version != metadata["resourceVersion"]:
        raise _conflict(
            entry,
            metadata["name"],
            "the object has been modified; please apply your changes to the latest version "
            "and try again",
        )


def check_delete_preconditions(
    entry: KindEntry, before: KubeObject, uid: str, version: str
) -> None:
    """Raise `Conflict` if the UID or resource version of a delete does not match."""
    metadata = before["metadata"]
    for label, expected, actual in (
        ("UID", uid, metadata["uid"]),
        ("ResourceVersion", version, metadata["resourceVersion"]),
    ):
        if expected and expected != actual:
            raise _conflict(entry, metadata["name"], _precondition(label, expected, actual))


def check_finalizers(entry: KindEntry, new: KubeObject, before: KubeObject) -> None:
    """Raise if a write adds finalizers to an object that is being deleted."""
    if "deletionTimestamp" not in before["metadata"]:
        return
    had = before["metadata"].get("finalizers") or ()
    added = [
        finalizer for finalizer in new["metadata"].get("finalizers") or () if finalizer not in had
    ]
    if added:
        why = (
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers {added}"
        )
        cause = Cause("metadata.finalizers", why, "FieldValueForbidden")
        admission.refuse(new, entry.kind, [cause])


def _precondition(label: str, expected: str, actual: str) -> str:
    return (
        f"Precondition failed: {label} in precondition: {expected}, "
        f"{label} in object meta: {actual}"
    )


def _conflict(entry: KindEntry, name: str, why: str) -> Conflict:
    resource = entry.kind.gvr.group_resource
    return Conflict(
        f'Operation cannot be fulfilled on {resource} "{name}": {why}', resource=resource, name=name
    )


# Scales


def scale_of(entry: KindEntry, obj: KubeObject) -> KubeObject:
    """Return the Scale of a workload."""
    replicas: Any = obj
    for step in _replicas_path(entry):
        replicas = replicas.get(step) if isinstance(replicas, Mapping) else None
    status: dict[str, Any] = {"replicas": status_of(obj).get("replicas", 0)}
    selector = spec_of(obj).get("selector")
    if isinstance(selector, Mapping):
        is_plain = not {"matchLabels", "matchExpressions"} & selector.keys()
        status["selector"] = str(
            label_selector_of({"matchLabels": selector} if is_plain else selector)
        )
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def scaled(entry: KindEntry, before: KubeObject, replicas: int) -> KubeObject:
    """Return a workload with another number of replicas."""
    *folders, last = _replicas_path(entry)
    if replicas < 0:
        raise Invalid(
            f'Scale.autoscaling "{before["metadata"]["name"]}" is invalid: spec.replicas: '
            f"Invalid value: {replicas}: must be greater than or equal to 0",
            causes=[Cause("spec.replicas", "must be greater than or equal to 0")],
        )
    new: KubeObject = copy_json(before)
    target = new
    for step in folders:
        target = target.setdefault(step, {})
    target[last] = replicas
    return new


def patched_replicas(entry: KindEntry, obj: KubeObject, patch: Patch, patch_type: PatchType) -> int:
    """Return the number of replicas after a patch of a workload's Scale."""
    if patch_type is PatchType.STRATEGIC:
        patch_type = PatchType.MERGE
    scale = patched(entry, scale_of(entry, obj), patch, patch_type)
    replicas = spec_of(scale).get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise BadRequest(f"spec.replicas of a Scale must be a number, not {replicas!r}")
    return replicas


def _replicas_path(entry: KindEntry) -> list[str]:
    if not entry.kind.has_scale:
        raise NotFound("the server could not find the requested resource")
    path = entry.scale_paths.get("specReplicasPath") or ".spec.replicas"
    return path.lstrip(".").split(".")
