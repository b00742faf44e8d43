"""DeleteData v0.1.0: snapshots of restic, forgotten; those that are gone are no error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.delete_data.v0_0_0 import DeleteData, nothing_named
from kanister_py.functions.blueprint.keyed_repository import (
    HelperPod,
    KeyedArgs,
    KeyedRepository,
    restic_pod,
)
from kanister_py.functions.blueprint.repositories import location_of, prefixed, repository_path
from kanister_py.ports.arguments import Field
from kanister_py.ports.function import Func, PhaseContext


class DeleteDataArgsV010(KeyedArgs):
    """What DeleteData takes from v0.1.0 on."""

    namespace: str = Field(description="Where the pod runs.")
    backup_artifact_prefix: str = Field(
        description="Where the repository is in the Profile's bucket, whose name may stand in "
        "front: one for all backups, or several with spaces between them, one for each.",
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
        default=False, description="Whether each repository is pruned afterwards."
    )


class DeleteDataV010(Func, parent=DeleteData):
    """Deletes backups, in a new pod. One that is gone already is no error.

    `spaceFreed` is by how much the repository became smaller in the store.
    """

    version: ClassVar = "v0.1.0"
    Args = DeleteDataArgsV010

    def exec(
        self, ctx: PhaseContext, params: Params, args: DeleteDataArgsV010
    ) -> Mapping[str, Any]:
        ids, tags = args.backup_id.split(), args.backup_tag.split()
        if bool(ids) == bool(tags):
            raise nothing_named()
        location = location_of(ctx, params)
        named = ids or tags
        paths = [repository_path(each, location) for each in args.backup_artifact_prefix.split()]
        if len(paths) == 1:
            paths *= len(named)
        if len(paths) != len(named):
            raise UsageError(
                f"backupArtifactPrefix names {len(paths)} places for {len(named)} backups; name "
                "one for all, or one for each",
                reason="InvalidArguments",
            )
        wanted: dict[str, list[str]] = {}
        for path, each in zip(paths, named, strict=True):
            wanted.setdefault(path, []).append(each)
        with restic_pod(ctx, params, self.name, args, HelperPod(args.namespace)) as target:
            freed = sum(
                forget(
                    KeyedRepository(ctx, location, path, args, target),
                    each if ids else [],
                    each if tags else [],
                    reclaim_space=args.reclaim_space,
                )
                for path, each in wanted.items()
            )
        return {"spaceFreed": f"{freed} B"}


def forget(
    repository: KeyedRepository, ids: list[str], tags: list[str], *, reclaim_space: bool
) -> int:
    """Forget snapshots of one repository, and say how many bytes that gave back."""
    with prefixed("Failed to forget data"):
        found = [each["id"] for tag in tags for each in repository.snapshots("--tag", tag)]
        repository.forget([*ids, *found])
        return repository.prune() if reclaim_space else 0
