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
    """Which backups are deleted."""

    namespace: str = Field(description="Where the pod runs.")
    backup_artifact_prefix: str = Field(
        description="Where the repositories are in the Profile's bucket, whose name may stand in "
        "front; several with spaces between them, one for each backup.",
    )
    backup_id: str = Field(
        default="",
        alias="backupID",
        description="The IDs of the backups, with spaces between them; these, or tags.",
    )
    backup_tag: str = Field(
        default="", description="The tags of the backups, with spaces between them."
    )
    reclaim_space: bool = Field(
        default=False, description="Whether the repository is pruned after each."
    )


class DeleteDataArgs(DeletedBackups, HelperArgs):
    """What DeleteData takes."""


class DeleteDataOutputs(Outputs):
    """What a deletion says of itself; of what restic 0.12 and later print, always `0 B`."""

    space_freed: str


class DeleteData(HelperFunc):
    """Deletes backups, in a new pod."""

    name = "DeleteData"
    version: ClassVar = "v0.0.0"
    Args = DeleteDataArgs
    Outputs = DeleteDataOutputs
    pod_prefix: ClassVar = "delete-data-"

    def exec(self, ctx: PhaseContext, params: Params, args: DeleteDataArgs) -> Mapping[str, Any]:
        ids, tags = args.backup_id.split(), args.backup_tag.split()
        if bool(ids) == bool(tags):
            raise nothing_named()
        check_shell_words(ids=ids, tags=tags)
        places = places_of(ctx, params, args.backup_artifact_prefix.split())
        if len(places) != len(ids or tags):
            raise UsageError(
                f"backupArtifactPrefix names {len(places)} places for {len(ids or tags)} backups; "
                "name one for each, the same again where it is the same",
                reason="InvalidArguments",
            )
        with self.repository(ctx, params, args, places[0]) as repository:
            repositories = [repository.at(each) for each in places]
            found = ids or [
                each.snapshot_of_tag(tag) for each, tag in zip(repositories, tags, strict=True)
            ]
            freed = forget_all(repositories, found, reclaim_space=args.reclaim_space)
        return {"spaceFreed": freed}


def nothing_named() -> UsageError:
    return UsageError("Require one argument: backupID or backupTag", reason="InvalidArguments")


def forget_all(
    repositories: Sequence[Repository], snapshots: Sequence[str], *, reclaim_space: bool
) -> str:
    """Forget a snapshot in each repository, and say how much space that gave back."""
    freed = 0
    for repository, snapshot in zip(repositories, snapshots, strict=True):
        repository.forget(snapshot)
        if reclaim_space:
            freed += repository.prune()
    return f"{freed} B"
