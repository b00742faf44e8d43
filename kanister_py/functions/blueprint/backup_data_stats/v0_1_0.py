"""BackupDataStats v0.1.0: size of a snapshot, also in bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.quantities import in_units
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.backup_data_stats.v0_0_0 import (
    BackupDataStats,
    MeasuredBackup,
)
from kanister_py.functions.blueprint.keyed_repository import HelperPod, KeyedArgs, repository_in_pod
from kanister_py.functions.blueprint.repositories import place_of, prefixed
from kanister_py.functions.blueprint.restic import RAW_DATA
from kanister_py.ports.function import Func, PhaseContext
from kanister_py.ports.models import Outputs


class BackupDataStatsArgsV010(MeasuredBackup, KeyedArgs):
    """Arguments of BackupDataStats from v0.1.0 on."""


class BackupDataStatsOutputsV010(Outputs):
    """Outputs of BackupDataStats from v0.1.0 on."""

    mode: str = Field(description="The counting mode, as set in `statsMode`.")
    file_count: str = Field(
        description="The number of files in the backup; in the mode `raw-data`, of blobs."
    )
    size: str = Field(description="The size of the counted data, such as `2.941 KiB`.")
    size_bytes: str = Field(description="The size of the counted data in bytes.")
    version: str = Field(description="The version of the function.")


class BackupDataStatsV010(Func, parent=BackupDataStats):
    """Measures a backup, using a new pod.

    If the backup does not exist, the error contains its ID.
    """

    version: ClassVar = "v0.1.0"
    Args = BackupDataStatsArgsV010
    Outputs = BackupDataStatsOutputsV010

    def exec(
        self, ctx: PhaseContext, params: Params, args: BackupDataStatsArgsV010
    ) -> Mapping[str, Any]:
        place, helper = (
            place_of(ctx, params, args.backup_artifact_prefix),
            HelperPod(args.namespace),
        )
        with (
            repository_in_pod(ctx, params, self.name, args, place, helper) as repository,
            prefixed("Failed to get backup stats"),
        ):
            snapshots = [
                snapshot["id"]
                for snapshot in repository.snapshots()
                if snapshot["id"].startswith(args.backup_id)
            ]
            if len(snapshots) != 1:
                raise UsageError(
                    f"{len(snapshots)} backups in {place.path} have the ID {args.backup_id}",
                    reason="SnapshotNotFound",
                )
            stats = json.loads(
                repository.run("stats", "--json", "--mode", args.stats_mode, *snapshots)
            )
        size = int(stats["total_size"])
        counted = "total_blob_count" if args.stats_mode == RAW_DATA else "total_file_count"
        return {
            "mode": args.stats_mode,
            "fileCount": str(stats.get(counted, 0)),
            "size": in_units(size),
            "sizeBytes": str(size),
            "version": "v0.1.0",
        }
