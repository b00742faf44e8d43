"""DeleteDataAll v0.1.0: backups of BackupDataAll, forgotten; missing ones are not an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.delete_data.v0_1_0 import forget
from kanister_py.functions.blueprint.delete_data_all.v0_0_0 import AllDeletedBackups, DeleteDataAll
from kanister_py.functions.blueprint.keyed_repository import HelperPod, KeyedArgs, repository_in_pod
from kanister_py.functions.blueprint.repositories import place_of
from kanister_py.functions.blueprint.restic import check_snapshot_id
from kanister_py.functions.blueprint.restore_data_all.v0_0_0 import read_backup_info
from kanister_py.ports.function import Func, PhaseContext


class DeleteDataAllArgsV010(AllDeletedBackups, KeyedArgs):
    """Arguments of DeleteDataAll from v0.1.0 on."""

    backup_artifact_prefix: str = Field(
        description="Path of the repositories in the bucket of the Profile; may start with the "
        "name of the bucket.",
    )


class DeleteDataAllV010(Func, parent=DeleteDataAll):
    """Deletes the backups of BackupDataAll, using a new pod.

    A backup that no longer exists is not an error.
    """

    version: ClassVar = "v0.1.0"
    Args = DeleteDataAllArgsV010

    def exec(
        self, ctx: PhaseContext, params: Params, args: DeleteDataAllArgsV010
    ) -> Mapping[str, Any]:
        place, helper = (
            place_of(ctx, params, args.backup_artifact_prefix),
            HelperPod(args.namespace),
        )
        backups = read_backup_info(args.backup_info)
        if not backups:
            return {"spaceFreed": "0 B"}
        for backup in backups.values():
            check_snapshot_id(backup)
        with repository_in_pod(ctx, params, self.name, args, place, helper) as repository:
            freed = sum(
                forget(
                    repository.at(place.below(pod)),
                    [snapshot],
                    [],
                    reclaim_space=args.reclaim_space,
                )
                for pod, snapshot in backups.items()
            )
        return {"spaceFreed": f"{freed} B"}
