"""RestoreData v0.1.0: a snapshot of restic, restored with a required, hidden key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from posixpath import normpath
from typing import ClassVar, Final, Self

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
from kanister_py.functions.blueprint.restore_data.destinations import (
    destination_of,
    is_below,
    not_on_volume,
    partly_mounted,
    selected_paths,
)
from kanister_py.functions.blueprint.restore_data.v0_0_0 import RESTORE_PATH, RestoredBackup
from kanister_py.functions.blueprint.restore_data_all.v0_0_0 import AllRestoredBackups
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Outputs

_VERIFIED: Final = re.compile(r"finished verifying (\d+) files")


class RestoreDataArgsV010(RestoredBackup, KeyedArgs):
    """Arguments of RestoreData from v0.1.0 on."""

    restore_path: str = RESTORE_PATH

    @model_validator(mode="after")
    def _check_selection(self) -> Self:
        if bool(self.pod) == bool(self.volumes):
            raise ValueError("Require one argument: pod or volumes")
        if bool(self.backup_tag) == bool(self.backup_identifier):
            raise ValueError("Require one argument: backupTag or backupIdentifier")
        return self


class RestoreDataV010(VolumeFunc):
    """Restores a backup in a new pod with volumes mounted, and verifies the restored files.

    A backup contains absolute paths: a file is restored to `restorePath` followed by its
    path. If a file would not be on one of the mounted volumes, nothing is restored. Existing
    files that are not in the backup remain. An interrupted restore is repeated. Reads the
    backups of all versions of BackupData and CopyVolumeData.
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
            snapshot = args.backup_identifier or _snapshot_of_tag(repository, args.backup_tag)
            restore(repository, args, claims, snapshot)


def _snapshot_of_tag(repository: KeyedRepository, tag: str) -> str:
    """Return the ID of the newest snapshot with a tag."""
    with prefixed("Failed to restore backup"):
        snapshots = repository.snapshots("--tag", tag)
        if not snapshots:
            raise _not_found(f"No backup has the tag {tag}")
        return str(snapshots[-1]["id"])


def restore(
    repository: KeyedRepository,
    args: RestoredBackup | AllRestoredBackups,
    claims: Mapping[str, str],
    snapshot: str,
) -> None:
    """Restore one snapshot onto the mounted claims, and verify the files that were written.

    Refuses before anything is written if a file would not go to a claim.
    """
    folder = args.backup_path if isinstance(args, RestoredBackup) else ""
    mounts = [normpath(mount) for mount in claims.values()]
    with prefixed("Failed to restore backup"):
        snapshots = repository.snapshots(snapshot)
        if not snapshots:
            raise _not_found(f"There is no backup {snapshot}")
        paths = [str(path) for path in snapshots[-1].get("paths") or ()]
        selected = selected_paths(paths, folder)
        if not selected:
            raise _not_found(f"backupPath {folder} is not in the backup, which holds {paths}")
        partly = partly_mounted(selected, args.restore_path, mounts)
        if partly:
            _check_files(repository, snapshot, partly, args.restore_path, mounts)
        part = ["--include", folder] if folder else []
        words = ("restore", snapshot, "--target", args.restore_path, "--verify", *part)
        verified = _VERIFIED.search(repository.run(*words))
        if verified is not None and not int(verified[1]):
            _check_empty(repository, snapshot, selected, folder)


def _check_files(
    repository: KeyedRepository,
    snapshot: str,
    paths: Sequence[str],
    restore_path: str,
    mounts: Sequence[str],
) -> None:
    """Check that all files below these paths go to claims; folders on the way to them may not."""
    lost = list[str]()

    def collect(path: str, kind: str) -> None:
        is_file = kind != "dir" and is_below(path, paths)
        if is_file and not lost and not is_below(destination_of(path, restore_path), mounts):
            lost.append(path)

    repository.visit(snapshot, collect)
    if lost:
        raise not_on_volume(lost[0], destination_of(lost[0], restore_path), mounts)


def _check_empty(
    repository: KeyedRepository, snapshot: str, selected: Sequence[str], folder: str
) -> None:
    """Raise if nothing was verified although the backup holds files that were wanted."""
    kinds = Counter[str]()

    def collect(path: str, kind: str) -> None:
        kinds[kind] += is_below(path, selected)

    repository.visit(snapshot, collect)
    if folder and not kinds.total():
        raise _not_found(f"backupPath {folder} is not in the backup")
    if kinds["file"]:
        raise UsageError(
            f"restic restored and verified none of {kinds['file']} files",
            reason="RestoreIncomplete",
        )


def _not_found(message: str) -> UsageError:
    return UsageError(message, reason="SnapshotNotFound")
