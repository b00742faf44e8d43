"""BackupDataAll v0.1.0: the volumes of every pod, each in a repository of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.backup_data.v0_1_0 import back_up_pod
from kanister_py.functions.blueprint.backup_data_all.v0_0_0 import (
    BackupDataAllOutputs,
    format_backup_info,
    pods_of,
)
from kanister_py.functions.blueprint.keyed_repository import Progress, RetentionArgs
from kanister_py.functions.blueprint.repositories import POD_NAMES, VolumeFunc, for_every_pod
from kanister_py.ports.function import PhaseContext


class BackupDataAllArgsV010(RetentionArgs):
    """Arguments of BackupDataAll from v0.1.0 on."""

    namespace: str = Field(description="The namespace of the pods.")
    include_path: str = Field(
        description="The folder to back up, as mounted in the pods; it must be on one of their "
        "volumes."
    )
    backup_artifact_prefix: str = Field(
        description="Path of the repositories in the bucket of the Profile; may start with the "
        "name of the bucket. Every pod has a repository of its own below this path, named after "
        "the pod.",
    )
    container: str = Field(
        default="", description="Ignored; accepted for compatibility with blueprints that set it."
    )
    pods: str = POD_NAMES
    parallelism: int = Field(
        default=4, ge=1, description="The maximum number of pods backed up at the same time."
    )


class BackupDataAllV010(VolumeFunc):
    """Backs up a folder on the volumes of several pods, a limited number at a time.

    Every backup behaves like BackupData v0.1.0. If a backup fails, the phase fails once all
    backups have ended; the next attempt uses the backups that already exist.
    """

    name = "BackupDataAll"
    version: ClassVar = "v0.1.0"
    Args = BackupDataAllArgsV010
    Outputs = BackupDataAllOutputs

    def exec(
        self, ctx: PhaseContext, params: Params, args: BackupDataAllArgsV010
    ) -> Mapping[str, Any]:
        progress = Progress(ctx)

        def back_up(pod: str) -> dict[str, str]:
            done = back_up_pod(ctx, params, self.name, args, pod, progress, below=pod)
            return {"PodName": pod, "BackupID": done.id, "BackupTag": done.tag}

        results = for_every_pod(
            ctx,
            pods_of(params, args.pods, "Failed to get pods"),
            back_up,
            "Failed to backup data for pod",
            limit=args.parallelism,
        )
        return {"BackupAllInfo": format_backup_info(results), "version": "v0.1.0"}
