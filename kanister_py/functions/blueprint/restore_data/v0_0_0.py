"""RestoreData v0.0.0: a snapshot of restic, restored in a pod that mounts the volumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic import Field

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.repositories import (
    REPOSITORY_PREFIX,
    HelperArgs,
    VolumeFunc,
    claims_of_pod,
    place_of,
)
from kanister_py.functions.blueprint.restic import check_shell_words
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args

RESTORE_PATH: Final[Any] = Field(
    default="/",
    description="The folder prepended to the absolute paths in the backup: `/` restores every "
    "file to its original path. Combined with the path of the backup (`backupRoot` of "
    "CopyVolumeData, `includePath` of BackupData), it must be on a mounted volume.",
)


class RestoredBackup(Args):
    """Arguments that select the backup and the destination."""

    namespace: str = Field(description="The namespace of the pod and of the volumes.")
    backup_artifact_prefix: str = REPOSITORY_PREFIX
    backup_tag: str = Field(
        default="", description="The tag of the backup. Set either this or `backupIdentifier`."
    )
    backup_identifier: str = Field(default="", description="The ID of the backup.")
    pod: str = Field(
        default="",
        description="The pod of the workload whose volumes to restore. Set either this or "
        "`volumes`.",
    )
    volumes: dict[str, str] = Field(
        default_factory=dict,
        description="PersistentVolumeClaims and their mount paths.",
    )
    restore_path: str = Field(default="/", description="The folder to restore into.")
    backup_path: str = Field(
        default="", description="The folder in the backup to restore; by default, the whole backup."
    )


class RestoreDataArgs(RestoredBackup, HelperArgs):
    """Arguments of RestoreData."""

    image: str = Field(description="The image of the pod, which must contain bash and restic.")


class RestoreData(VolumeFunc):
    """Restores a backup in a new pod with volumes mounted.

    Existing files that are not in the backup remain.
    """

    name = "RestoreData"
    version: ClassVar = "v0.0.0"
    Args = RestoreDataArgs
    pod_prefix: ClassVar = "restore-data-"

    def exec(self, ctx: PhaseContext, params: Params, args: RestoreDataArgs) -> Mapping[str, Any]:
        if bool(args.pod) == bool(args.volumes):
            raise _one_of("pod or volumes")
        if bool(args.backup_tag) == bool(args.backup_identifier):
            raise _one_of("backupTag or backupIdentifier")
        check_shell_words(
            ids=[args.backup_identifier] if args.backup_identifier else (),
            tags=[args.backup_tag] if args.backup_tag else (),
        )
        claims = args.volumes or claims_of_pod(params, args.pod)
        place = place_of(ctx, params, args.backup_artifact_prefix)
        with self.repository(ctx, params, args, place, claims) as repository:
            return repository.restore(_snapshot_of(args), args.restore_path)


def _one_of(names: str) -> UsageError:
    return UsageError(f"Require one argument: {names}", reason="InvalidArguments")


def _snapshot_of(args: RestoreDataArgs) -> list[str]:
    """Return the arguments of `restic restore` that select the snapshot."""
    below = f":{args.backup_path}" if args.backup_path else ""
    if args.backup_identifier:
        return [f"{args.backup_identifier}{below}"]
    return ["--tag", args.backup_tag, f"latest{below}"]
