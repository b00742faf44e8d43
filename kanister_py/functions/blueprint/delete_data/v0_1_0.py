"""DeleteData v0.1.0: snapshots of restic, forgotten; missing ones are not an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.delete_data.v0_0_0 import (
    DeleteData,
    DeletedBackups,
    no_backup_selected,
)
from kanister_py.functions.blueprint.keyed_repository import (
    HelperPod,
    KeyedArgs,
    KeyedRepository,
    repository_in_pod,
)
from kanister_py.functions.blueprint.repositories import Place, places_of, prefixed
from kanister_py.functions.blueprint.restic import check_snapshot_id
from kanister_py.ports.function import Func, PhaseContext


class DeleteDataArgsV010(DeletedBackups, KeyedArgs):
    """Arguments of DeleteData from v0.1.0 on."""

    backup_artifact_prefix: str = Field(
        description="Paths of the repositories in the bucket of the Profile, separated by "
        "spaces: one for all backups, or one for every backup. They may start with the name of "
        "the bucket.",
    )
    reclaim_space: bool = Field(
        default=False,
        description="Whether to prune the repositories after the backups are deleted.",
    )


class DeleteDataV010(Func, parent=DeleteData):
    """Deletes backups, using a new pod. A backup that no longer exists is not an error.

    `spaceFreed` is the decrease in the size of the repository in the object store.
    """

    version: ClassVar = "v0.1.0"
    Args = DeleteDataArgsV010

    def exec(
        self, ctx: PhaseContext, params: Params, args: DeleteDataArgsV010
    ) -> Mapping[str, Any]:
        ids, tags = args.backup_id.split(), args.backup_tag.split()
        if bool(ids) == bool(tags):
            raise no_backup_selected()
        for backup in ids:
            check_snapshot_id(backup)
        named = ids or tags
        places = places_of(ctx, params, args.backup_artifact_prefix.split())
        if len(places) == 1:
            places *= len(named)
        if len(places) != len(named):
            raise UsageError(
                f"backupArtifactPrefix names {len(places)} places for {len(named)} backups; name "
                "one for all, or one for each",
                reason="InvalidArguments",
            )
        snapshots_by_place: dict[Place, list[str]] = {}
        for place, snapshot in zip(places, named, strict=True):
            snapshots_by_place.setdefault(place, []).append(snapshot)
        helper = HelperPod(args.namespace)
        with repository_in_pod(ctx, params, self.name, args, places[0], helper) as repository:
            freed = sum(
                forget(
                    repository.at(place),
                    several if ids else [],
                    several if tags else [],
                    reclaim_space=args.reclaim_space,
                )
                for place, several in snapshots_by_place.items()
            )
        return {"spaceFreed": f"{freed} B"}


def forget(
    repository: KeyedRepository, ids: list[str], tags: list[str], *, reclaim_space: bool
) -> int:
    """Forget snapshots of one repository, and return the number of reclaimed bytes."""
    with prefixed("Failed to forget data"):
        snapshot_ids = [
            snapshot["id"] for tag in tags for snapshot in repository.snapshots("--tag", tag)
        ]
        repository.forget([*ids, *snapshot_ids])
        return repository.prune() if reclaim_space else 0
