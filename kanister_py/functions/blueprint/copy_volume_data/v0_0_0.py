"""CopyVolumeData v0.0.0: a volume, backed up by restic in a pod that has it mounted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.backup_data.v0_0_0 import BackupOutputs
from kanister_py.functions.blueprint.repositories import (
    REPOSITORY_PREFIX,
    HelperArgs,
    Repository,
    VolumeFunc,
    helper_job,
    helper_pod,
    location_of,
    repository_path,
    tag_of,
)
from kanister_py.ports.arguments import Field
from kanister_py.ports.function import PhaseContext

_PREFIX: Final = "copy-vol-data-"
_FOLDER: Final = "/mnt/vol_data"


class CopyVolumeDataArgs(HelperArgs):
    """What CopyVolumeData takes."""

    namespace: str = Field(description="Where the pod runs, and where the volume is.")
    volume: str = Field(description="The PersistentVolumeClaim that is backed up.")
    data_artifact_prefix: str = REPOSITORY_PREFIX
    mount_path: str = Field(
        default="",
        description="Where the volume is mounted, and so which paths the backup has; left out, "
        "`/mnt/vol_data/<claim>`.",
    )


class CopyVolumeDataOutputs(BackupOutputs):
    """What a backup of a volume says of itself."""

    backup_root: str
    backup_artifact_location: str


class CopyVolumeData(VolumeFunc):
    """Backs a volume up in a new pod that has it mounted."""

    name = "CopyVolumeData"
    version: ClassVar = "v0.0.0"
    Args = CopyVolumeDataArgs
    Outputs = CopyVolumeDataOutputs

    def exec(
        self, ctx: PhaseContext, params: Params, args: CopyVolumeDataArgs
    ) -> Mapping[str, Any]:
        location = location_of(ctx, params)
        path = repository_path(args.data_artifact_prefix, location)
        root = args.mount_path or f"{_FOLDER}/{args.volume}"
        job = helper_job(_PREFIX, args.namespace, args)
        tag = tag_of(ctx)
        with helper_pod(ctx, params, self.name, job, {args.volume: root}) as target:
            done = Repository(ctx, location, path, args, target).backup(root, tag)
        return {
            "backupID": done.id,
            "backupRoot": root,
            "backupArtifactLocation": path,
            "backupTag": tag,
            "fileCount": done.file_count,
            "size": done.size,
            "phySize": done.added,
            "version": "v0.0.0",
        }
