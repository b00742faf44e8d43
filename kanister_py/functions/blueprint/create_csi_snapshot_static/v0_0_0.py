"""CreateCSISnapshotStatic v0.0.0: an existing snapshot, registered in the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.kube.access import Access
from kanister_py.core.kube.resources import (
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOT_CONTENTS,
    VOLUME_SNAPSHOTS,
)
from kanister_py.functions.blueprint.references import prefix_errors
from kanister_py.functions.blueprint.snapshots import (
    API_VERSION,
    make,
    outcome_of,
    snapshot_of,
    wait_until_ready,
)
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Args, Outputs


class CreateCSISnapshotStaticArgs(Args):
    """Arguments of CreateCSISnapshotStatic."""

    name: str = Field(description="The name of the new VolumeSnapshot.")
    namespace: str = Field(description="The namespace of the new VolumeSnapshot.")
    driver: str = Field(description="The CSI driver that manages the snapshot.")
    snapshot_handle: str = Field(description="The handle of the snapshot in the storage system.")
    snapshot_class: str = Field(
        description="The VolumeSnapshotClass to use. Its deletion policy decides whether the "
        "snapshot in the storage system is deleted together with the Kubernetes objects."
    )


class CreateCSISnapshotStaticOutputs(Outputs):
    """Outputs of CreateCSISnapshotStatic."""

    name: str = Field(description="The name of the VolumeSnapshot.")
    namespace: str = Field(description="The namespace of the VolumeSnapshot.")
    restore_size: str = Field(
        description="The minimum size of a volume restored from the snapshot; `0` if the "
        "driver does not report it."
    )
    snapshot_content: str = Field(
        description="The VolumeSnapshotContent bound to the VolumeSnapshot."
    )


class CreateCSISnapshotStatic(Func):
    """Registers an existing snapshot of the storage system in Kubernetes.

    Creates a VolumeSnapshotContent `<name>-content-…` and a VolumeSnapshot bound to it, and
    waits, without a time limit, until the VolumeSnapshot is ready to use. An error of the
    driver fails the phase unless it is known to be transient. Both objects remain when the
    ActionSet is deleted. A phase that is resumed after a restart continues with the objects
    that it created.
    """

    name = "CreateCSISnapshotStatic"
    version: ClassVar = "v0.0.0"
    Args = CreateCSISnapshotStaticArgs
    Outputs = CreateCSISnapshotStaticOutputs
    on_restart = OnRestart.ADOPT

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        namespace, group = str(args.get("namespace") or ""), "snapshot.storage.k8s.io"
        verbs = ("get", "list", "watch", "create")
        used = str(args.get("snapshotClass") or "")
        return [
            Access(group, "volumesnapshotclasses", ("get",), "", used, is_cluster_wide=True),
            Access(group, "volumesnapshotcontents", ("get", "create"), is_cluster_wide=True),
            Access(group, "volumesnapshots", verbs, namespace),
        ]

    def exec(
        self, ctx: PhaseContext, params: Any, args: CreateCSISnapshotStaticArgs
    ) -> Mapping[str, Any]:
        content = f"{args.name}-content-{ctx.run.key('content', attempt=1)}"
        make(
            ctx,
            VOLUME_SNAPSHOT_CONTENTS,
            _content_of(args, content, _deletion_policy(ctx, args.snapshot_class)),
            "content",
            "Failed to create content",
        )
        source = {"volumeSnapshotContentName": content}
        snapshot = snapshot_of(args.name, args.namespace, args.snapshot_class, source)
        make(ctx, VOLUME_SNAPSHOTS, snapshot, "snapshot", "Failed to create content")
        return outcome_of(wait_until_ready(ctx, args.name, args.namespace))


def _deletion_policy(ctx: PhaseContext, snapshot_class: str) -> str:
    with prefix_errors(
        "Failed to get DeletionPolicy from VolumeSnapshotClass: Failed to find VolumeSnapshotClass"
    ):
        existing_class = ctx.cluster.get(VOLUME_SNAPSHOT_CLASSES, snapshot_class)
    return str(existing_class.get("deletionPolicy", ""))


def _content_of(args: CreateCSISnapshotStaticArgs, name: str, deletion_policy: str) -> KubeObject:
    return {
        "apiVersion": API_VERSION,
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": name},
        "spec": {
            "volumeSnapshotRef": {
                "kind": "VolumeSnapshot",
                "name": args.name,
                "namespace": args.namespace,
            },
            "deletionPolicy": deletion_policy,
            "driver": args.driver,
            "source": {"snapshotHandle": args.snapshot_handle},
            "volumeSnapshotClassName": args.snapshot_class,
        },
    }
