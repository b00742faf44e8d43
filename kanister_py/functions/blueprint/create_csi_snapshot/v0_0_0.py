"""CreateCSISnapshot v0.0.0: a VolumeSnapshot of a claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import NotFound
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.field_paths import parse_field_path
from kanister_py.core.kube.resources import PERSISTENT_VOLUME_CLAIMS, VOLUME_SNAPSHOTS
from kanister_py.functions.blueprint.references import prefix_errors
from kanister_py.functions.blueprint.snapshots import (
    make,
    outcome_of,
    sanitized,
    snapshot_of,
    suffix_of,
    wait_until_ready,
)
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Args, Outputs


class CreateCSISnapshotArgs(Args):
    """Arguments of CreateCSISnapshot."""

    pvc: str = Field(description="The PersistentVolumeClaim to take a snapshot of.")
    namespace: str = Field(
        description="The namespace of the PersistentVolumeClaim and of the new snapshot."
    )
    snapshot_class: str = Field(description="The VolumeSnapshotClass to use.")
    name: str = Field(
        default="",
        description="The name of the VolumeSnapshot; by default, `<pvc>-snapshot-` followed by "
        "five characters.",
    )
    labels: dict[str, str] = Field(
        default_factory=dict,
        description="Labels of the VolumeSnapshot. They are converted to lower case, and every "
        "character other than a letter, a digit, `_` or `-` is replaced by `_`.",
    )


class CreateCSISnapshotOutputs(Outputs):
    """Outputs of CreateCSISnapshot."""

    name: str = Field(description="The name of the VolumeSnapshot.")
    pvc: str = Field(description="The PersistentVolumeClaim that the snapshot was taken of.")
    namespace: str = Field(
        description="The namespace of the VolumeSnapshot and of the PersistentVolumeClaim."
    )
    restore_size: str = Field(
        description="The minimum size of a volume restored from the snapshot."
    )
    snapshot_content: str = Field(
        description="The VolumeSnapshotContent bound to the VolumeSnapshot."
    )


class CreateCSISnapshot(Func):
    """Creates a VolumeSnapshot of a PersistentVolumeClaim through its CSI driver.

    The phase waits, without a time limit, until the VolumeSnapshot is ready to use. An error
    of the driver fails the phase unless it is known to be transient, and so does an existing
    snapshot of the same name. If the driver does not report a size, the size of the claim is
    used. The snapshot remains when the ActionSet is deleted. A phase that is retried, or
    resumed after a restart, continues with the snapshot of that name that it created.
    """

    name = "CreateCSISnapshot"
    version: ClassVar = "v0.0.0"
    Args = CreateCSISnapshotArgs
    Outputs = CreateCSISnapshotOutputs
    on_restart = OnRestart.ADOPT

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        namespace = str(args.get("namespace") or "")
        verbs = ("get", "list", "watch", "create")
        return [
            Access("", "persistentvolumeclaims", ("get",), namespace, str(args.get("pvc") or "")),
            Access("snapshot.storage.k8s.io", "volumesnapshots", verbs, namespace),
        ]

    def exec(
        self, ctx: PhaseContext, params: Any, args: CreateCSISnapshotArgs
    ) -> Mapping[str, Any]:
        claim = self._claim(ctx, args)
        name = args.name or f"{args.pvc}-snapshot-{suffix_of(ctx)}"
        source = {"persistentVolumeClaimName": args.pvc}
        snapshot = snapshot_of(name, args.namespace, args.snapshot_class, source)
        snapshot["metadata"]["labels"] = sanitized(args.labels)
        make(ctx, VOLUME_SNAPSHOTS, snapshot, "snapshot", "Failed to create snapshot resource")
        ready = wait_until_ready(ctx, name, args.namespace)
        return {"pvc": args.pvc, **outcome_of(ready, _size_of(claim))}

    def _claim(self, ctx: PhaseContext, args: CreateCSISnapshotArgs) -> KubeObject:
        try:
            with prefix_errors("Failed to query PVC"):
                return ctx.cluster.get(PERSISTENT_VOLUME_CLAIMS, args.pvc, namespace=args.namespace)
        except NotFound as error:
            raise NotFound(
                f"Failed to find PVC {args.pvc} in namespace {args.namespace}",
                resource=error.resource,
                name=args.pvc,
            ) from error


def _size_of(claim: KubeObject) -> str:
    return str(_CAPACITY.find(claim) or _ASKED.find(claim) or "0")


_CAPACITY = parse_field_path("status.capacity.storage")
_ASKED = parse_field_path("spec.resources.requests.storage")
