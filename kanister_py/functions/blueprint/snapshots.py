"""VolumeSnapshots: manifests, creation without duplicates, and readiness."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kanister_py.core.errors import AlreadyExists, UsageError
from kanister_py.core.kube.names import SUFFIX_ALPHABET
from kanister_py.core.kube.parts import status_of
from kanister_py.core.kube.quantities import format_quantity, parse_quantity
from kanister_py.core.kube.resources import VOLUME_SNAPSHOTS, GroupVersionResource
from kanister_py.functions.blueprint.references import prefix_errors, was_created_by
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import PhaseContext

API_VERSION: Final = VOLUME_SNAPSHOTS.api_version
_SUFFIX_LENGTH: Final = 5
_LONGEST_LABEL: Final = 63
_NOT_IN_LABELS: Final = re.compile(r"[^a-z0-9_-]")
# Errors after which a driver continues to work.
_PASSING_ERRORS: Final = (
    "the object has been modified; please apply your changes to the latest version and try again",
    "VolumeSnapshotContent is missing",
    "SnapshotFinalizerError",
)
_MOST_PASSING_ERRORS: Final = 100


def sanitized(labels: Mapping[str, str]) -> dict[str, str]:
    """Convert labels to a form that every storage accepts: short, lower case, few characters."""
    return {_sanitized(key): _sanitized(value) for key, value in labels.items()}


def _sanitized(text: str) -> str:
    return _NOT_IN_LABELS.sub("_", text[:_LONGEST_LABEL].lower())


def suffix_of(ctx: PhaseContext) -> str:
    """Return a suffix that looks random but is the same after a restart."""
    number = int(ctx.run.key("name"), 16)
    letters = []
    for _ in range(_SUFFIX_LENGTH):
        number, index = divmod(number, len(SUFFIX_ALPHABET))
        letters.append(SUFFIX_ALPHABET[index])
    return "".join(letters)


def snapshot_of(
    name: str, namespace: str, snapshot_class: str, source: Mapping[str, str]
) -> KubeObject:
    """Return the manifest of a VolumeSnapshot."""
    return {
        "apiVersion": API_VERSION,
        "kind": "VolumeSnapshot",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"source": dict(source), "volumeSnapshotClassName": snapshot_class},
    }


def make(
    ctx: PhaseContext,
    resource: GroupVersionResource,
    manifest: KubeObject,
    part: str,
    failure: str,
) -> None:
    """Create an object unless this phase has already created it; `failure` prefixes errors.

    The object has no owner reference to the ActionSet: a backup outlives it.
    """
    metadata = manifest["metadata"]
    labels = {**metadata.get("labels", {}), **ctx.labels(part)}
    namespace = metadata.get("namespace", "")
    try:
        with prefix_errors(failure):
            ctx.cluster.create({**manifest, "metadata": {**metadata, "labels": labels}})
    except AlreadyExists:
        existing = ctx.cluster.get(resource, metadata["name"], namespace=namespace)
        if not was_created_by(ctx, existing, part):
            raise


def wait_until_ready(ctx: PhaseContext, name: str, namespace: str) -> KubeObject:
    """Wait, without a time limit, until a VolumeSnapshot is ready, and return it.

    An error of the driver ends the wait, unless it is known to be transient.
    """
    passing = 0

    def ready() -> KubeObject | None:
        nonlocal passing
        existing = ctx.cluster.get(VOLUME_SNAPSHOTS, name, namespace=namespace)
        status = status_of(existing)
        error = status.get("error")
        if error:
            message = str(error.get("message") or "")
            passing += 1
            is_passing = any(sign in message for sign in _PASSING_ERRORS)
            if not is_passing or passing > _MOST_PASSING_ERRORS:
                why = f"Snapshot {namespace}/{name} failed: {message}"
                raise UsageError(why, reason="SnapshotFailed")
            return None
        is_ready = status.get("readyToUse") is True and status.get("creationTime")
        return existing if is_ready else None

    ready_one: KubeObject = ctx.wait(ready, what=f"snapshot {namespace}/{name} to be ready")
    return ready_one


def outcome_of(snapshot: KubeObject, size_if_unknown: str = "0") -> dict[str, Any]:
    """Return the information that a later phase needs to restore a snapshot."""
    status = status_of(snapshot)
    size = status.get("restoreSize")
    return {
        "name": snapshot["metadata"]["name"],
        "namespace": snapshot["metadata"]["namespace"],
        "restoreSize": format_quantity(parse_quantity(str(size or size_if_unknown))),
        "snapshotContent": str(status.get("boundVolumeSnapshotContentName") or ""),
    }
