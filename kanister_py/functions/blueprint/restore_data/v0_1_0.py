"""RestoreData v0.1.0: a snapshot of restic, restored with a key that is named and hidden."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.keyed_repository import (
    HelperPod,
    KeyedArgs,
    KeyedRepository,
    restic_pod,
)
from kanister_py.functions.blueprint.repositories import (
    REPOSITORY_PREFIX,
    VolumeFunc,
    claims_of_pod,
    location_of,
    prefixed,
    repository_path,
)
from kanister_py.ports.arguments import Field, Outputs, model_validator
from kanister_py.ports.function import PhaseContext


class RestoreDataArgsV010(KeyedArgs):
    """What RestoreData takes from v0.1.0 on."""

    namespace: str = Field(description="Where the pod runs, and where the volumes are.")
    backup_artifact_prefix: str = REPOSITORY_PREFIX
    backup_tag: str = Field(default="", description="The tag of the backup; this, or the next.")
    backup_identifier: str = Field(default="", description="The ID of the backup.")
    pod: str = Field(
        default="",
        description="The pod of the workload whose volumes are restored; this, or `volumes`.",
    )
    volumes: dict[str, str] = Field(
        default_factory=dict,
        description="PersistentVolumeClaims and where each is mounted.",
    )
    restore_path: str = Field(default="/", description="The folder to restore into.")
    backup_path: str = Field(
        default="", description="The folder of the backup that is restored; left out, all of it."
    )

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
        location = location_of(ctx, params)
        path = repository_path(args.backup_artifact_prefix, location)
        with restic_pod(ctx, params, self.name, args, HelperPod(args.namespace, claims)) as target:
            repository = KeyedRepository(ctx, location, path, args, target)
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
