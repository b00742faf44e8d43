"""PersistentVolumeClaims in pods: which are mounted where, and which only to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.core.errors import NotFound, ObjectNotFetched
from kanister_py.core.objects.access import Access
from kanister_py.core.objects.resources import PERSISTENT_VOLUME_CLAIMS
from kanister_py.ports.function import PhaseContext


def access_to_claim(args: Mapping[str, Any], name: str) -> Access:
    """Say what it takes to look at a claim before it is mounted."""
    namespace = str(args.get("namespace") or "")
    return Access("", "persistentvolumeclaims", ("get",), namespace, name)


def spec_with_claims(
    ctx: PhaseContext, namespace: str, claims: Mapping[str, str], spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Mount claims in the first container of a pod; those of many readers are read only."""
    volumes, mounts = [], []
    for claim, path in claims.items():
        name = f"vol-{ctx.run.key(claim)}"
        is_read_only = "ReadOnlyMany" in _access_modes(ctx, namespace, claim)
        mode = {"readOnly": True} if is_read_only else {}
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim, **mode}})
        mounts.append({"name": name, "mountPath": path, **mode})
    first, *others = spec["containers"]
    return {**spec, "containers": [{**first, "volumeMounts": mounts}, *others], "volumes": volumes}


def _access_modes(ctx: PhaseContext, namespace: str, claim: str) -> list[str]:
    try:
        found = ctx.cluster.get(PERSISTENT_VOLUME_CLAIMS, claim, namespace=namespace)
    except NotFound as error:
        told = f"Failed to retrieve PVC. Namespace {namespace}, Name {claim}: {error.message}"
        raise ObjectNotFetched(told) from error
    return list(found["spec"].get("accessModes") or ())
