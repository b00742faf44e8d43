"""RestoreDataAll v0.1.0: backups of BackupDataAll, restored for a few pods at a time."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.backup_data_all.v0_0_0 import pods_of
from kanister_py.functions.blueprint.keyed_repository import HelperPod, KeyedArgs, repository_in_pod
from kanister_py.functions.blueprint.repositories import claims_of_pod, for_every_pod, place_of
from kanister_py.functions.blueprint.restore_data.v0_0_0 import RESTORE_PATH
from kanister_py.functions.blueprint.restore_data.v0_1_0 import restore
from kanister_py.functions.blueprint.restore_data_all.v0_0_0 import (
    AllRestoredBackups,
    RestoreDataAll,
    read_backup_info,
)
from kanister_py.ports.function import Func, PhaseContext
from kanister_py.ports.models import Outputs


class RestoreDataAllArgsV010(AllRestoredBackups, KeyedArgs):
    """Arguments of RestoreDataAll from v0.1.0 on."""

    backup_artifact_prefix: str = Field(
        description="Path of the repositories in the bucket of the Profile; may start with the "
        "name of the bucket.",
    )
    restore_path: str = RESTORE_PATH
    parallelism: int = Field(
        default=4, ge=1, description="The maximum number of pods restored at the same time."
    )


class RestoreDataAllV010(Func, parent=RestoreDataAll):
    """Restores the backups of BackupDataAll, a limited number at a time.

    Every original pod gets a new pod for its restore, which behaves like RestoreData v0.1.0.
    """

    version: ClassVar = "v0.1.0"
    Args = RestoreDataAllArgsV010
    Outputs = Outputs

    def exec(self, ctx: PhaseContext, params: Params, args: RestoreDataAllArgsV010) -> None:
        place = place_of(ctx, params, args.backup_artifact_prefix)
        pods = pods_of(params, args.pods, "Unsupported workload type")
        backups = read_backup_info(args.backup_info)
        missing = [pod for pod in pods if pod not in backups]
        if missing:
            raise UsageError(f"backupInfo has no backup of pod {missing[0]}", reason="NoBackup")

        def restore_one(pod: str) -> None:
            claims = claims_of_pod(params, pod)
            helper = HelperPod(args.namespace, claims, part=pod)
            below = place.below(pod)
            with repository_in_pod(ctx, params, self.name, args, below, helper) as repository:
                restore(repository, args, claims, backups[pod])

        for_every_pod(
            ctx, pods, restore_one, "Failed to restore data for pod", limit=args.parallelism
        )
