"""DeleteCSISnapshot v0.0.0: a VolumeSnapshot, deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import NotFound
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.resources import VOLUME_SNAPSHOTS
from kanister_py.functions.blueprint.references import prefix_errors, wait_until_gone
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Args, Outputs


class DeleteCSISnapshotArgs(Args):
    """Arguments of DeleteCSISnapshot."""

    name: str = Field(description="The VolumeSnapshot to delete.")
    namespace: str = Field(description="The namespace of the VolumeSnapshot.")


class DeleteCSISnapshot(Func):
    """Deletes a VolumeSnapshot and waits, without a time limit, until it is gone.

    A snapshot that does not exist is not an error. The deletion policy of its
    VolumeSnapshotContent determines whether the snapshot in the storage system is deleted
    too.
    """

    name = "DeleteCSISnapshot"
    version: ClassVar = "v0.0.0"
    Args = DeleteCSISnapshotArgs
    Outputs = Outputs
    on_restart = OnRestart.REPEAT

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        namespace, name = str(args.get("namespace") or ""), str(args.get("name") or "")
        verbs = ("get", "list", "watch", "delete")
        return [Access("snapshot.storage.k8s.io", "volumesnapshots", verbs, namespace, name)]

    def exec(self, ctx: PhaseContext, params: Any, args: DeleteCSISnapshotArgs) -> None:
        try:
            with prefix_errors("Failed to find VolumeSnapshot"):
                snapshot = ctx.cluster.get(VOLUME_SNAPSHOTS, args.name, namespace=args.namespace)
            with prefix_errors("Failed to delete VolumeSnapshot"):
                ctx.cluster.delete(VOLUME_SNAPSHOTS, args.name, namespace=args.namespace)
        except NotFound:
            return
        uid = snapshot["metadata"].get("uid", "")
        wait_until_gone(ctx, VOLUME_SNAPSHOTS, args.name, args.namespace, uid)
