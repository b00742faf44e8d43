"""CopyVolumeData v0.0.0: a volume, backed up by restic in a pod that mounts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.backup_data.v0_0_0 import BackupOutputs
from kanister_py.functions.blueprint.repositories import (
    REPOSITORY_PREFIX,
    HelperArgs,
    VolumeFunc,
    place_of,
    tag_of,
)
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args


class CopiedVolume(Args):
    """Arguments that select the volume and the repository."""

    namespace: str = Field(description="The namespace of the pod and of the volume.")
    volume: str = Field(description="The PersistentVolumeClaim to back up.")
    data_artifact_prefix: str = REPOSITORY_PREFIX
    mount_path: str = Field(
        default="",
        description="The path at which the volume is mounted; the paths in the backup start "
        "with it. By default, `/mnt/vol_data/<claim>`.",
    )

    @property
    def root(self) -> str:
        return self.mount_path or f"/mnt/vol_data/{self.volume}"


class CopyVolumeDataArgs(CopiedVolume, HelperArgs):
    """Arguments of CopyVolumeData."""


class CopyVolumeDataOutputs(BackupOutputs):
    """Outputs of the backup of a volume."""

    backup_root: str = Field(
        description="The path at which the volume was mounted for the backup. A restore must "
        "mount the volume at the same path."
    )
    backup_artifact_location: str = Field(
        description="The path of the repository, starting with the name of the bucket."
    )


class CopyVolumeData(VolumeFunc):
    """Backs up a volume in a new pod that mounts it."""

    name = "CopyVolumeData"
    version: ClassVar = "v0.0.0"
    Args = CopyVolumeDataArgs
    Outputs = CopyVolumeDataOutputs
    pod_prefix: ClassVar = "copy-vol-data-"

    def exec(
        self, ctx: PhaseContext, params: Params, args: CopyVolumeDataArgs
    ) -> Mapping[str, Any]:
        place, tag = place_of(ctx, params, args.data_artifact_prefix), tag_of(ctx)
        claims = {args.volume: args.root}
        with self.repository(ctx, params, args, place, claims) as repository:
            done = repository.backup(args.root, tag)
        return {
            "backupID": done.id,
            "backupRoot": args.root,
            "backupArtifactLocation": place.path,
            "backupTag": tag,
            "fileCount": done.file_count,
            "size": done.size,
            "phySize": done.added,
            "version": "v0.0.0",
        }
