"""DeleteCSISnapshotContent v0.0.0: a VolumeSnapshotContent, deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import NotFound
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.resources import VOLUME_SNAPSHOT_CONTENTS
from kanister_py.functions.blueprint.references import prefix_errors
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Args, Outputs


class DeleteCSISnapshotContentArgs(Args):
    """Arguments of DeleteCSISnapshotContent."""

    name: str = Field(description="The VolumeSnapshotContent to delete.")


class DeleteCSISnapshotContent(Func):
    """Deletes a VolumeSnapshotContent, which is cluster-scoped.

    An object that does not exist is not an error. Does not wait until the object is gone.
    """

    name = "DeleteCSISnapshotContent"
    version: ClassVar = "v0.0.0"
    Args = DeleteCSISnapshotContentArgs
    Outputs = Outputs
    on_restart = OnRestart.REPEAT

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        name = str(args.get("name") or "")
        verbs = ("delete",)
        return [
            Access(
                "snapshot.storage.k8s.io",
                "volumesnapshotcontents",
                verbs,
                "",
                name,
                is_cluster_wide=True,
            )
        ]

    def exec(self, ctx: PhaseContext, params: Any, args: DeleteCSISnapshotContentArgs) -> None:
        with suppress(NotFound), prefix_errors(f"Failed to delete {args.name}"):
            ctx.cluster.delete(VOLUME_SNAPSHOT_CONTENTS, args.name)
