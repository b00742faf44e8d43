"""DeleteData v0.0.0: snapshots of restic, forgotten one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.repositories import (
    HelperArgs,
    HelperFunc,
    Repository,
    places_of,
)
from kanister_py.functions.blueprint.restic import check_shell_words
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args, Outputs


class DeletedBackups(Args):
    """Arguments that select the backups to delete."""

    namespace: str = Field(description="The namespace in which the pod runs.")
    backup_artifact_prefix: str = Field(
        description="Paths of the repositories in the bucket of the Profile, separated by "
        "spaces: one for every backup. They may start with the name of the bucket.",
    )
    backup_id: str = Field(
        default="",
        alias="backupID",
        description="The IDs of the backups, separated by spaces. Set either this or `backupTag`.",
    )
    backup_tag: str = Field(default="", description="The tags of the backups, separated by spaces.")
    reclaim_space: bool = Field(
        default=False, description="Whether to prune the repository after each deleted backup."
    )


class DeleteDataArgs(DeletedBackups, HelperArgs):
    """Arguments of DeleteData."""


class DeleteDataOutputs(Outputs):
    """Outputs of DeleteData."""

    space_freed: str = Field(
        description="The space reclaimed by pruning, in bytes, such as `1024 B`; `0 B` without "
        "`reclaimSpace`."
    )


class DeleteData(HelperFunc):
    """Deletes backups, using a new pod.

    `spaceFreed` is read from the output of restic and is always `0 B` with restic 0.12 and
    later.
    """

    name = "DeleteData"
    version: ClassVar = "v0.0.0"
    Args = DeleteDataArgs
    Outputs = DeleteDataOutputs
    pod_prefix: ClassVar = "delete-data-"

    def exec(self, ctx: PhaseContext, params: Params, args: DeleteDataArgs) -> Mapping[str, Any]:
        ids, tags = args.backup_id.split(), args.backup_tag.split()
        if bool(ids) == bool(tags):
            raise no_backup_selected()
        check_shell_words(ids=ids, tags=tags)
        places = places_of(ctx, params, args.backup_artifact_prefix.split())
        if len(places) != len(ids or tags):
            raise UsageError(
                f"backupArtifactPrefix names {len(places)} places for {len(ids or tags)} backups; "
                "name one for each, the same again where it is the same",
                reason="InvalidArguments",
            )
        with self.repository(ctx, params, args, places[0]) as repository:
            repositories = [repository.at(place) for place in places]
            snapshot_ids = ids or [
                repository.snapshot_of_tag(tag)
                for repository, tag in zip(repositories, tags, strict=True)
            ]
            freed = forget_all(repositories, snapshot_ids, reclaim_space=args.reclaim_space)
        return {"spaceFreed": freed}


def no_backup_selected() -> UsageError:
    return UsageError("Require one argument: backupID or backupTag", reason="InvalidArguments")


def forget_all(
    repositories: Sequence[Repository], snapshots: Sequence[str], *, reclaim_space: bool
) -> str:
    """Forget one snapshot per repository, and return the reclaimed space."""
    freed = 0
    for repository, snapshot in zip(repositories, snapshots, strict=True):
        repository.forget(snapshot)
        if reclaim_space:
            freed += repository.prune()
    return f"{freed} B"
