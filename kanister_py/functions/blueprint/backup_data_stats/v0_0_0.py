"""BackupDataStats v0.0.0: number and size of the files in a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.repositories import (
    REPOSITORY_PREFIX,
    HelperArgs,
    HelperFunc,
    place_of,
)
from kanister_py.functions.blueprint.restic import check_shell_words
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args, Outputs


class MeasuredBackup(Args):
    """Arguments that select the backup and the counting mode."""

    namespace: str = Field(description="The namespace in which the pod runs.")
    backup_artifact_prefix: str = REPOSITORY_PREFIX
    backup_id: str = Field(alias="backupID", description="The ID of the backup.")
    stats_mode: str = Field(
        default="restore-size",
        description="The counting mode of `restic stats`: `restore-size`, `files-by-contents`, "
        "`blobs-per-file` or `raw-data`.",
    )


class BackupDataStatsArgs(MeasuredBackup, HelperArgs):
    """Arguments of BackupDataStats."""


class BackupDataStatsOutputs(Outputs):
    """Outputs of BackupDataStats."""

    mode: str = Field(description="The counting mode, as set in `statsMode`.")
    file_count: str = Field(
        description="The number of files in the backup; in the mode `raw-data`, of blobs."
    )
    size: str = Field(description="The size of the counted data, such as `2.941 KiB`.")
    version: str = Field(description="The version of the function.")


class BackupDataStats(HelperFunc):
    """Measures a backup, using a new pod."""

    name = "BackupDataStats"
    version: ClassVar = "v0.0.0"
    Args = BackupDataStatsArgs
    Outputs = BackupDataStatsOutputs
    pod_prefix: ClassVar = "backup-data-stats-"

    def exec(
        self, ctx: PhaseContext, params: Params, args: BackupDataStatsArgs
    ) -> Mapping[str, Any]:
        check_shell_words(ids=[args.backup_id], tags=[args.stats_mode])
        place = place_of(ctx, params, args.backup_artifact_prefix)
        with self.repository(ctx, params, args, place) as repository:
            count, size = repository.stats(args.backup_id, args.stats_mode)
        return {"mode": args.stats_mode, "fileCount": count, "size": size, "version": "v0.0.0"}
