"""CopyVolumeData v0.0.0: a volume, backed up by restic in a pod that has it mounted."""

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
    """Which volume is backed up, and where."""

    namespace: str = Field(description="Where the pod runs, and where the volume is.")
    volume: str = Field(description="The PersistentVolumeClaim that is backed up.")
    data_artifact_prefix: str = REPOSITORY_PREFIX
    mount_path: str = Field(
        default="",
        description="Where the volume is mounted, and so which paths the backup has; left out, "
        "`/mnt/vol_data/<claim>`.",
    )

    @property
    def root(self) -> str:
        return self.mount_path or f"/mnt/vol_data/{self.volume}"


class CopyVolumeDataArgs(CopiedVolume, HelperArgs):
    """What CopyVolumeData takes."""


class CopyVolumeDataOutputs(BackupOutputs):
    """What a backup of a volume says of itself."""

    backup_root: str
    """Where the volume was mounted for the backup. A restore has to mount it there, too."""
    backup_artifact_location: str


class CopyVolumeData(VolumeFunc):
    """Backs a volume up in a new pod that has it mounted."""

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
