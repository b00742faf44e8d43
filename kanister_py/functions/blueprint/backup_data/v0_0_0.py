"""BackupData v0.0.0: a folder of a running container, through restic in that container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.commands import CommandFunc, Target
from kanister_py.functions.blueprint.repositories import (
    Repository,
    RepositoryArgs,
    place_of,
    prefixed,
    tag_of,
)
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Outputs


class BackupDataArgs(RepositoryArgs):
    """What BackupData takes."""

    namespace: str = Field(description="The namespace of the pod.")
    pod: str = Field(description="The pod whose data is backed up; it must be running.")
    container: str = Field(description="The container, which must have bash and restic.")
    include_path: str = Field(description="The folder in the container that is backed up.")
    backup_artifact_prefix: str = Field(
        description="Where the repository is in the Profile's bucket, whose name may stand in "
        "front. The prefix of the Profile does not count.",
    )


class BackupOutputs(Outputs):
    """What a backup says of itself."""

    backup_id: str = Field(alias="backupID")
    backup_tag: str
    file_count: str
    size: str
    phy_size: str
    version: str


class BackupData(CommandFunc):
    """Backs a folder of a running container up, with the restic of that container.

    A repository that cannot be reached is made. The key and the credential of the store
    stand on the command line, and a key that is left out is one that everybody knows.
    """

    name = "BackupData"
    needs_pods = True
    version: ClassVar = "v0.0.0"
    Args = BackupDataArgs
    Outputs = BackupOutputs

    def exec(self, ctx: PhaseContext, params: Params, args: BackupDataArgs) -> Mapping[str, Any]:
        place = place_of(ctx, params, args.backup_artifact_prefix)
        target = Target(args.namespace, args.pod, args.container)
        repository, tag = Repository(ctx, place, args, target), tag_of(ctx)
        with prefixed("Failed to backup data"):
            done = repository.backup(args.include_path, tag)
        return {
            "backupID": done.id,
            "backupTag": tag,
            "fileCount": done.file_count,
            "size": done.size,
            "phySize": done.added,
            "version": "v0.0.0",
        }
