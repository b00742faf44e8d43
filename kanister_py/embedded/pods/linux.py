"""System calls behind a pod's namespaces, which Python does not offer in every version.

Imported by a program that runs without the package around it: it may import
nothing but the standard library.
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

# What a bind mount takes over from its source and, in a user namespace, may not drop.
# statvfs tells all but one of them in the bits of mount.
_KEPT_FLAGS: Final = MS_NOSUID | MS_NODEV | MS_NOEXEC | 1024 | 2048
_ST_RELATIME: Final = 4096
_MS_RELATIME: Final = 1 << 21

_MNT_DETACH: Final = 2
_PR_SET_PDEATHSIG: Final = 1

_libc: Any = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Give this process (for processes: its next child) namespaces of its own."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, flags: int) -> None:
    """Join namespaces: of a process, if `fd` is a pidfd."""
    _check(_libc.setns(fd, flags), "setns")


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send a signal to this process when the thread that made it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount something; the error names what and where."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(result, f"mount {source or kind} on {target}")


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Show a file or folder at a second place, with all that is mounted inside."""
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        _make_read_only(target)


def make_tree_read_only(root: str, except_for: Collection[str], below: Collection[str]) -> None:
    """Make all mounts of a root read-only, except for some, and for those `below` others."""
    lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    points = [_unescaped(line.split()[4]) for line in lines]
    for point in dict.fromkeys(points):
        if point in except_for or not f"{point}/".startswith(f"{root}/"):
            continue
        if any(f"{point}/".startswith(f"{place}/") for place in below):
            continue
        # Another mount may hide one; nobody reaches that.
        with suppress(FileNotFoundError, NotADirectoryError):
            _make_read_only(point)


def _unescaped(text: str) -> str:
    """Decode a path of mountinfo, in which a space is written as an octal number."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _make_read_only(place: str) -> None:
    found = os.statvfs(place).f_flag
    kept = found & _KEPT_FLAGS | (_MS_RELATIME if found & _ST_RELATIME else 0)
    mount("", place, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def change_root(root: str) -> None:
    """Make a mounted folder the root, and let go of everything outside."""
    os.chdir(root)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")


def map_own_ids(uid: int, gid: int) -> None:
    """Keep user and group inside a new user namespace what they are outside."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        Path(f"/proc/self/{name}").write_text(text)


def touch(path: str) -> None:
    """Make an empty file, unless there is one."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
