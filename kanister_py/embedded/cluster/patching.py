"""Patches and scales of objects in memory, and what a write may not change."""

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
from kanister_py.embedded.cluster.catalogue import Known
from kanister_py.ports.cluster import KubeObject, Patch, PatchType

# What the cluster alone writes: taken over from what is there, whatever is sent.
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


def patched(known: Known, there: KubeObject, patch: Patch, patch_type: PatchType) -> KubeObject:
    """Give the object that a patch makes of one; `there` may be changed on the way."""
    if patch_type is PatchType.JSON:
        if isinstance(patch, Mapping):
            raise BadRequest("a JSON patch is a list of operations")
        try:
            made: KubeObject = json_patched(there, patch)
        except InvalidPatch as error:
            raise Invalid(error.message, causes=[Cause("", error.message)]) from error
        return made
    if not isinstance(patch, Mapping):
        raise BadRequest(f"{patch_type} is an object, not a list of operations")
    if patch_type is PatchType.MERGE:
        merged: KubeObject = merge_patched(there, patch)
        return merged
    if not known.kind.is_builtin:
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, "
            "application/apply-patch+yaml"
        )
    try:
        return strategic_patched(there, patch, known.rules)
    except InvalidPatch as error:
        raise BadRequest(error.message) from error


def combined(known: Known, before: KubeObject, new: KubeObject, subresource: str) -> KubeObject:
    """Put together what a write may change and what it may not."""
    if subresource == "status":
        # All but the status stays what it is, and is shared with what was there.
        made: KubeObject = {**before, "metadata": {**before["metadata"]}}
        made.pop("status", None)
        if new.get("status") is not None:
            made["status"] = new["status"]
        return made
    if known.kind.has_status:
        new.pop("status", None)
        if "status" in before:
            new["status"] = before["status"]
    # One kind, one stored version: nothing else tells objects apart.
    new["apiVersion"], new["kind"] = before["apiVersion"], before["kind"]
    metadata, old = new["metadata"], before["metadata"]
    for key in _KEPT_METADATA:
        if key in old:
            metadata[key] = old[key]
        else:
            metadata.pop(key, None)
    return new


def applied_part(known: Known, wanted: KubeObject, subresource: str) -> KubeObject:
    """Leave out what an apply to this place does not reach."""
    if subresource == "status":
        metadata = wanted["metadata"]
        part: KubeObject = {
            key: wanted[key] for key in ("apiVersion", "kind", "status") if key in wanted
        }
        kept = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
        return {**part, "metadata": kept}
    if known.kind.has_status:
        wanted.pop("status", None)
    return wanted


def is_wanted_anew(known: Known, new: KubeObject, before: KubeObject) -> bool:
    """Say whether a write changed what is wanted, not what is."""
    left_out = {"metadata", "apiVersion"} | ({"status"} if known.kind.has_status else set())
    return any(new.get(key) != before.get(key) for key in {**new, **before} if key not in left_out)


def check_preconditions(known: Known, before: KubeObject, uid: str, version: str) -> None:
    """Refuse a write that means another object, or an older state of this one."""
    metadata = before["metadata"]
    if uid and uid != metadata["uid"]:
        raise _conflict(known, metadata["name"], _precondition("UID", uid, metadata["uid"]))
    if version and version != metadata["resourceVersion"]:
        raise _conflict(
            known,
            metadata["name"],
            "the object has been modified; please apply your changes to the latest version "
            "and try again",
        )


def check_delete_preconditions(known: Known, before: KubeObject, uid: str, version: str) -> None:
    """Refuse to delete another object than was meant, or another state of it."""
    metadata = before["metadata"]
    for label, wanted, found in (
        ("UID", uid, metadata["uid"]),
        ("ResourceVersion", version, metadata["resourceVersion"]),
    ):
        if wanted and wanted != found:
            raise _conflict(known, metadata["name"], _precondition(label, wanted, found))


def check_finalizers(known: Known, new: KubeObject, before: KubeObject) -> None:
    """Refuse finalizers that are added to an object on its way out."""
    if "deletionTimestamp" not in before["metadata"]:
        return
    had = before["metadata"].get("finalizers") or ()
    added = [each for each in new["metadata"].get("finalizers") or () if each not in had]
    if added:
        why = (
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers {added}"
        )
        cause = Cause("metadata.finalizers", why, "FieldValueForbidden")
        admission.refuse(new, known.kind, [cause])


def _precondition(label: str, wanted: str, found: str) -> str:
    return (
        f"Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {found}"
    )


def _conflict(known: Known, name: str, why: str) -> Conflict:
    resource = known.kind.gvr.group_resource
    return Conflict(
        f'Operation cannot be fulfilled on {resource} "{name}": {why}', resource=resource, name=name
    )


# Scales


def scale_of(known: Known, obj: KubeObject) -> KubeObject:
    """Give the Scale that stands for a workload."""
    wanted: Any = obj
    for step in _replicas_path(known):
        wanted = wanted.get(step) if isinstance(wanted, Mapping) else None
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
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def scaled(known: Known, before: KubeObject, replicas: int) -> KubeObject:
    """Give a workload that wants so many replicas."""
    *folders, last = _replicas_path(known)
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


def patched_replicas(known: Known, obj: KubeObject, patch: Patch, patch_type: PatchType) -> int:
    """Say how many replicas a patch of a workload's Scale asks for."""
    if patch_type is PatchType.STRATEGIC:
        patch_type = PatchType.MERGE
    scale = patched(known, scale_of(known, obj), patch, patch_type)
    replicas = spec_of(scale).get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise BadRequest(f"spec.replicas of a Scale must be a number, not {replicas!r}")
    return replicas


def _replicas_path(known: Known) -> list[str]:
    if not known.kind.has_scale:
        raise NotFound("the server could not find the requested resource")
    path = known.scale_paths.get("specReplicasPath") or ".spec.replicas"
    return path.lstrip(".").split(".")
