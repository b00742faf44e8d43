"""System calls for the namespaces of pods, which not all Python versions provide.

The spawner imports this module without the package, so it uses only the standard library.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18

# Flags that a bind mount inherits and cannot drop in a user namespace. statvfs uses the values of
# mount(2) for all of them except relatime.
_INHERITED_FLAGS: Final = MS_NOSUID | MS_NODEV | MS_NOEXEC | 1024 | 2048
_ST_RELATIME: Final = 4096
_MS_RELATIME: Final = 1 << 21

_MNT_DETACH: Final = 2
_PR_SET_PDEATHSIG: Final = 1

_libc: Any = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _check(result: int, operation: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{operation}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process (for PID namespaces: its next child) into new namespaces."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, flags: int) -> None:
    """Join the namespaces of a process, given its pidfd."""
    _check(_libc.setns(fd, flags), "setns")


def die_with_parent(signal_number: int) -> None:
    """Request a signal from the kernel when the parent thread of this process ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount a file system. Errors name the source and the target."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(result, f"mount {source or kind} on {target}")


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Bind-mount a file or folder with all mounts below it."""
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        _make_read_only(target)


def make_tree_read_only(root: str, except_for: Collection[str], below: Collection[str]) -> None:
    """Make all mounts of a root read-only, except `except_for` and mounts inside of `below`."""
    lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    points = [_unescaped(line.split()[4]) for line in lines]
    for point in dict.fromkeys(points):
        if point in except_for or not f"{point}/".startswith(f"{root}/"):
            continue
        if any(f"{point}/".startswith(f"{place}/") for place in below):
            continue
        # Mounts that are hidden by others are not reachable.
        with suppress(FileNotFoundError, NotADirectoryError):
            _make_read_only(point)


def _unescaped(text: str) -> str:
    """Decode octal escapes in a path of mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _make_read_only(place: str) -> None:
    flags = os.statvfs(place).f_flag
    inherited = flags & _INHERITED_FLAGS | (_MS_RELATIME if flags & _ST_RELATIME else 0)
    mount("", place, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | inherited)


def change_root(root: str) -> None:
    """Make a mounted folder the root, and detach the old root."""
    os.chdir(root)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")


def map_own_ids(uid: int, gid: int) -> None:
    """Map the user and group to themselves in a new user namespace."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        Path(f"/proc/self/{name}").write_text(text)


def touch(path: str) -> None:
    """Create an empty file if it does not exist."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
