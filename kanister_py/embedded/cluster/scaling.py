"""Scale subresource: how many replicas a workload is to have, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.core.errors import BadRequest, Cause, Invalid, NotFound
from kanister_py.core.objects.copies import copy_json
from kanister_py.core.objects.parts import spec_of, status_of
from kanister_py.core.objects.selectors import label_selector_of
from kanister_py.embedded.cluster.catalogue import Known
from kanister_py.embedded.cluster.patching import patched
from kanister_py.ports.cluster import KubeObject, Patch, PatchType


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
