"""Volumes of a pod: which claims hold a folder of it, and where they are mounted."""

from __future__ import annotations

from posixpath import normpath
from typing import Any, NamedTuple

from kanister_py.core.errors import NotFound, ObjectNotFetched, UsageError
from kanister_py.core.objects.resources import PODS
from kanister_py.ports.function import PhaseContext


class PodVolumes(NamedTuple):
    """Claims that hold a folder, the paths at which they are mounted, and the pod's node."""

    claims: dict[str, str]
    node: str


def volumes_below(ctx: PhaseContext, namespace: str, pod: str, folder: str) -> PodVolumes:
    """Find the claims of a pod that hold a folder, or parts of it."""
    try:
        found = ctx.cluster.get(PODS, pod, namespace=namespace)
    except NotFound as error:
        raise ObjectNotFetched(f"Failed to find pod {namespace}/{pod}: {error.message}") from error
    spec = found["spec"]
    names = {
        each["name"]: each["persistentVolumeClaim"]["claimName"]
        for each in spec.get("volumes") or ()
        if each.get("persistentVolumeClaim")
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
