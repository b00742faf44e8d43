"""PersistentVolumeClaims in pods: their mounts, and the claims that contain a folder."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import normpath
from typing import Any, NamedTuple

from kanister_py.core.errors import NotFound, ObjectNotFetched, UsageError
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from kanister_py.ports.function import PhaseContext


def access_to_claim(args: Mapping[str, Any], name: str) -> Access:
    """Return the permission needed to read a claim before it is mounted."""
    namespace = str(args.get("namespace") or "")
    return Access("", "persistentvolumeclaims", ("get",), namespace, name)


def spec_with_claims(
    ctx: PhaseContext, namespace: str, claims: Mapping[str, str], spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Mount claims in the first container of a pod, read-only if they allow ReadOnlyMany."""
    volumes, mounts = [], []
    for claim, path in claims.items():
        name = f"vol-{ctx.run.key(claim)}"
        is_read_only = "ReadOnlyMany" in _access_modes(ctx, namespace, claim)
        mode = {"readOnly": True} if is_read_only else {}
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim, **mode}})
        mounts.append({"name": name, "mountPath": path, **mode})
    first, *sidecars = spec["containers"]
    return {
        **spec,
        "containers": [{**first, "volumeMounts": mounts}, *sidecars],
        "volumes": volumes,
    }


def _access_modes(ctx: PhaseContext, namespace: str, claim: str) -> list[str]:
    try:
        claim_object = ctx.cluster.get(PERSISTENT_VOLUME_CLAIMS, claim, namespace=namespace)
    except NotFound as error:
        message = f"Failed to retrieve PVC. Namespace {namespace}, Name {claim}: {error.message}"
        raise ObjectNotFetched(message) from error
    return list(claim_object["spec"].get("accessModes") or ())


class PodVolumes(NamedTuple):
    """Mount paths of the claims that contain a folder, and the node of the pod."""

    claims: dict[str, str]
    node: str


def volumes_below(ctx: PhaseContext, namespace: str, pod: str, folder: str) -> PodVolumes:
    """Find the claims of a pod that contain a folder or parts of it."""
    try:
        pod_object = ctx.cluster.get(PODS, pod, namespace=namespace)
    except NotFound as error:
        raise ObjectNotFetched(f"Failed to find pod {namespace}/{pod}: {error.message}") from error
    spec = pod_object["spec"]
    names = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in spec.get("volumes") or ()
        if volume.get("persistentVolumeClaim")
    }
    claims: dict[str, str] = {}
    for container in spec["containers"]:
        for mount in container.get("volumeMounts") or ():
            claim = names.get(mount["name"])
            if claim is None or not _overlap(folder, mount["mountPath"]):
                continue
            _check_whole(mount, pod)
            claims.setdefault(claim, mount["mountPath"])
    if not claims:
        raise UsageError(
            f"{folder} of pod {namespace}/{pod} is on none of its volumes; v0.0.0 backs up what "
            "is in the container itself",
            reason="VolumesNotFound",
        )
    return PodVolumes(claims, str(spec.get("nodeName") or ""))


def _overlap(folder: str, mount: str) -> bool:
    one, other = f"{normpath(folder)}/", f"{normpath(mount)}/"
    return one.startswith(other) or other.startswith(one)


def _check_whole(mount: dict[str, Any], pod: str) -> None:
    for key in ("subPath", "subPathExpr"):
        if mount.get(key):
            raise UsageError(
                f"Pod {pod} mounts part of a volume at {mount['mountPath']} ({key}), which is "
                "not supported; use v0.0.0",
                reason="VolumesNotFound",
            )
