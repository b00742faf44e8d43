"""Destinations of a restore: where the files of a backup go, and whether a volume is mounted there.

A backup keeps absolute paths, and restic puts each of them below `restorePath`. A destination
outside of the mounted volumes would be lost with the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from posixpath import normpath

from kanister_py.core.errors import UsageError


def destination_of(path: str, restore_path: str) -> str:
    """Return where a path of a backup is restored."""
    parts = (restore_path.strip("/"), path.strip("/"))
    return normpath("/" + "/".join(part for part in parts if part))


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Check whether a path is one of the folders, or in one of them."""
    return any(_contains(folder, path) for folder in folders)


def selected_paths(paths: Sequence[str], folder: str) -> list[str]:
    """Return the paths that are restored of a backup of `paths`, if `folder` selects a part.

    Patterns of restic are cut before their first wildcard. A relative one can match
    anywhere, so it selects all paths.
    """
    if not folder.startswith("/"):
        return [normpath(path) for path in paths]
    literal = folder
    for wildcard in "*?[":
        before, separator, _ = literal.partition(wildcard)
        literal = before.rpartition("/")[0] if separator else literal
    target = normpath(f"/{literal.strip('/')}")
    selected = []
    for path in map(normpath, paths):
        if _contains(path, target):
            selected.append(target)
        elif _contains(target, path):
            selected.append(path)
    return selected


def partly_mounted(paths: Sequence[str], restore_path: str, mounts: Sequence[str]) -> list[str]:
    """Return the paths whose destination is not on a volume itself, but contains mounts.

    Raises a UsageError if a destination neither is on a volume nor contains one. Of the paths
    that are returned, only files on volumes may be restored.
    """
    if not restore_path.startswith("/") or ".." in restore_path.split("/"):
        raise UsageError(
            f"restorePath {restore_path!r} must be an absolute path without ..",
            reason="InvalidArguments",
        )
    mounted = [normpath(mount) for mount in mounts]
    partly = []
    for path in paths:
        destination = destination_of(path, restore_path)
        if restore_path.strip("/") and normpath(restore_path) == path:
            raise UsageError(
                f"restorePath {restore_path} repeats the path of the backup, so its files would "
                f"go to {destination}; leave restorePath out to restore them where they were",
                reason="NotOnVolume",
            )
        if is_below(destination, mounted):
            continue
        if not any(_contains(destination, mount) for mount in mounted):
            raise not_on_volume(path, destination, mounts)
        partly.append(path)
    return partly


def not_on_volume(path: str, destination: str, mounts: Sequence[str]) -> UsageError:
    """Describe a path whose destination would be lost with the pod."""
    where = ", ".join(sorted(mounts)) or "nowhere"
    return UsageError(
        f"{path} of the backup would be restored to {destination}, where no volume is mounted "
        f"(volumes are mounted at {where}); mount the volume at {path}, or choose a restorePath "
        "so that restorePath and the path together are on a volume",
        reason="NotOnVolume",
    )


def _contains(folder: str, path: str) -> bool:
    return folder in {"/", path} or path.startswith(f"{folder}/")
