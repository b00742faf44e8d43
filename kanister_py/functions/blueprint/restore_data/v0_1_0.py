"""RestoreData v0.1.0: a snapshot of restic, restored with a key that is named and hidden."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import model_validator

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.keyed_repository import (
    HelperPod,
    KeyedArgs,
    KeyedRepository,
    repository_in_pod,
)
from kanister_py.functions.blueprint.repositories import (
    VolumeFunc,
    claims_of_pod,
    place_of,
    prefixed,
)
from kanister_py.functions.blueprint.restore_data.v0_0_0 import RestoredBackup
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Outputs


class RestoreDataArgsV010(RestoredBackup, KeyedArgs):
    """What RestoreData takes from v0.1.0 on."""

    @model_validator(mode="after")
    def _names_one_of_each(self) -> Self:
        if bool(self.pod) == bool(self.volumes):
            raise ValueError("Require one argument: pod or volumes")
        if bool(self.backup_tag) == bool(self.backup_identifier):
            raise ValueError("Require one argument: backupTag or backupIdentifier")
        return self


class RestoreDataV010(VolumeFunc):
    """Restores a backup in a new pod that has volumes mounted, and verifies what it wrote.

    Files that are there and not in the backup stay. A restore that was interrupted is done
    again. Reads what every version of BackupData and CopyVolumeData wrote.
    """

    name = "RestoreData"
    version: ClassVar = "v0.1.0"
    Args = RestoreDataArgsV010
    Outputs = Outputs

    def exec(self, ctx: PhaseContext, params: Params, args: RestoreDataArgsV010) -> None:
        claims = args.volumes or claims_of_pod(params, args.pod)
        place = place_of(ctx, params, args.backup_artifact_prefix)
        helper = HelperPod(args.namespace, claims)
        with repository_in_pod(ctx, params, self.name, args, place, helper) as repository:
            restore(repository, args)


def restore(repository: KeyedRepository, args: Any, *, snapshot: str = "") -> None:
    """Restore one snapshot, and read again what was written."""
    with prefixed("Failed to restore backup"):
        wanted = snapshot or args.backup_identifier
        if not wanted:
            found = repository.snapshots("--tag", args.backup_tag)
            if not found:
                raise UsageError(
                    f"No backup has the tag {args.backup_tag}", reason="SnapshotNotFound"
                )
            wanted = found[-1]["id"]
        folder = getattr(args, "backup_path", "")
        part = ["--include", folder] if folder else []
        repository.run("restore", wanted, "--target", args.restore_path, "--verify", *part)
