"""DeleteDataAll v0.0.0: backups of BackupDataAll, forgotten pod by pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.delete_data.v0_0_0 import (
    DeleteDataOutputs,
    forget_all,
    no_backup_selected,
)
from kanister_py.functions.blueprint.repositories import (
    HelperArgs,
    HelperFunc,
    Place,
    location_of,
)
from kanister_py.functions.blueprint.restic import check_shell_words
from kanister_py.functions.blueprint.restore_data_all.v0_0_0 import read_backup_info
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args


class AllDeletedBackups(Args):
    """Arguments that select the backups to delete."""

    namespace: str = Field(description="The namespace in which the pod runs.")
    backup_artifact_prefix: str = Field(
        description="Path of the repositories, including the name of the bucket. Unlike in "
        "other functions, the bucket is not added automatically.",
    )
    backup_info: str = Field(description="The output `BackupAllInfo` of BackupDataAll.")
    reclaim_space: bool = Field(
        default=False,
        description="Whether to prune the repositories after the backups are deleted.",
    )


class DeleteDataAllArgs(AllDeletedBackups, HelperArgs):
    """Arguments of DeleteDataAll."""


class DeleteDataAll(HelperFunc):
    """Deletes the backups of BackupDataAll one after the other, using a new pod.

    `spaceFreed` is read from the output of restic and is always `0 B` with restic 0.12 and
    later.
    """

    name = "DeleteDataAll"
    needs_pods = False  # the list of pods may be empty
    version: ClassVar = "v0.0.0"
    Args = DeleteDataAllArgs
    Outputs = DeleteDataOutputs
    pod_prefix: ClassVar = "delete-data-all-"

    def exec(self, ctx: PhaseContext, params: Params, args: DeleteDataAllArgs) -> Mapping[str, Any]:
        place = Place(location_of(ctx, params), args.backup_artifact_prefix)
        backups = read_backup_info(args.backup_info)
        if not backups:
            raise no_backup_selected()
        check_shell_words(ids=backups.values())
        with self.repository(ctx, params, args, place) as repository:
            repositories = [repository.at(place.below(pod)) for pod in backups]
            snapshots = list(backups.values())
            freed = forget_all(repositories, snapshots, reclaim_space=args.reclaim_space)
        return {"spaceFreed": freed}
