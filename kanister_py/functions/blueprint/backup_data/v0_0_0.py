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
    """Arguments of BackupData."""

    namespace: str = Field(description="The namespace of the pod.")
    pod: str = Field(description="The pod whose data to back up; it must be running.")
    container: str = Field(
        description="The container to run restic in; its image must contain bash and restic."
    )
    include_path: str = Field(description="The folder in the container to back up.")
    backup_artifact_prefix: str = Field(
        description="Path of the repository in the bucket of the Profile; may start with the "
        "name of the bucket. The prefix of the Profile is ignored.",
    )


class BackupOutputs(Outputs):
    """Outputs of a backup: its identity and its size."""

    backup_id: str = Field(
        alias="backupID", description="The ID of the backup: the short ID of the restic snapshot."
    )
    backup_tag: str = Field(description="The tag of the backup in the repository.")
    file_count: str = Field(description="The number of files in the backup.")
    size: str = Field(description="The total size of the files, such as `2.941 KiB`.")
    phy_size: str = Field(
        description="The amount of data added to the repository, such as `1.203 KiB`."
    )
    version: str = Field(description="The version of the function that created the backup.")


class BackupData(CommandFunc):
    """Backs up a folder of a running container, using restic in that container.

    A repository that cannot be opened is created. The encryption key and the credential of
    the object store appear on the command line, and the default key is publicly known.
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
