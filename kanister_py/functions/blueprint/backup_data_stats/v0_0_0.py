"""BackupDataStats v0.0.0: how many files a snapshot has, and how long they are."""

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
    """Which backup is measured, and how."""

    namespace: str = Field(description="Where the pod runs.")
    backup_artifact_prefix: str = REPOSITORY_PREFIX
    backup_id: str = Field(alias="backupID", description="The ID of the backup.")
    stats_mode: str = Field(
        default="restore-size",
        description="What is counted, as restic calls it: `restore-size`, `files-by-contents`, "
        "`blobs-per-file` or `raw-data`.",
    )


class BackupDataStatsArgs(MeasuredBackup, HelperArgs):
    """What BackupDataStats takes."""


class BackupDataStatsOutputs(Outputs):
    """How large a backup is."""

    mode: str
    file_count: str
    size: str
    version: str


class BackupDataStats(HelperFunc):
    """Measures a backup, in a new pod."""

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
