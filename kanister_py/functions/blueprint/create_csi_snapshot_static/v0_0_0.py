"""CreateCSISnapshotStatic v0.0.0: a snapshot of the storage, made known to the cluster."""

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
from kanister_py.functions.blueprint.references import failing_as
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
    """What CreateCSISnapshotStatic takes."""

    name: str = Field(description="The name of the new VolumeSnapshot.")
    namespace: str = Field(description="Where it will be.")
    driver: str = Field(description="The CSI driver that has the snapshot.")
    snapshot_handle: str = Field(description="What the storage calls the snapshot.")
    snapshot_class: str = Field(
        description="The VolumeSnapshotClass to use; it says whether the storage deletes the "
        "snapshot when Kubernetes does."
    )


class CreateCSISnapshotStaticOutputs(Outputs):
    """Where the snapshot is, and how large a volume it needs."""

    name: str = Field(description="The name of the VolumeSnapshot.")
    namespace: str = Field(description="Where it is.")
    restore_size: str = Field(
        description="The least size of a volume made out of it; `0` if the driver does not say."
    )
    snapshot_content: str = Field(description="The VolumeSnapshotContent that stands for it.")


class CreateCSISnapshotStatic(Func):
    """Makes a snapshot known to Kubernetes that the storage already has.

    Makes a VolumeSnapshotContent `<name>-content-…` and a VolumeSnapshot bound to it, and
    lasts, as long as it takes, until that is ready to use; an error of the driver fails
    the phase, unless it is one of those that pass. Both stay when the ActionSet is
    deleted. A phase that is taken up again after a restart goes on with what it made.
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
    with failing_as(
        "Failed to get DeletionPolicy from VolumeSnapshotClass: Failed to find VolumeSnapshotClass"
    ):
        found = ctx.cluster.get(VOLUME_SNAPSHOT_CLASSES, snapshot_class)
    return str(found.get("deletionPolicy", ""))


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
