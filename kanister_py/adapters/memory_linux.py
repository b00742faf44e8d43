"""Memory of this process, as Linux counts it and its C library keeps it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_CGROUPS: Final = Path("/sys/fs/cgroup")
# Older groups write a number of nearly 64 bits where there is no limit.
_NO_LIMIT: Final = 1 << 50
_ARENA_MAX: Final = -8
_MMAP_THRESHOLD: Final = -3
_ARENAS: Final = 2
_MAPPED_FROM_BYTES: Final = 128 << 10


class LinuxMemory:
    """Memory that this process uses, and the limit of its control group.

    Large blocks of many threads are kept apart, and few arenas: otherwise what each
    thread once used stays with it for good. Only glibc keeps so much, or can be set.
    """

    def __init__(self, proc: Path = Path("/proc/self"), cgroups: Path = _CGROUPS) -> None:
        self._proc = proc
        self._cgroups = cgroups
        library: Any = ctypes.CDLL(None)
        self._trim = getattr(library, "malloc_trim", None)
        if self._trim is not None:
            library.mallopt(_ARENA_MAX, _ARENAS)
            library.mallopt(_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)

    def used_bytes(self) -> int:
        try:
            return int((self._proc / "statm").read_text().split()[1]) * _PAGE_BYTES
        except (OSError, ValueError, IndexError):
            return 0

    def limit_bytes(self) -> int:
        limits = [each for path in self._groups() if 0 < (each := _number_in(path)) < _NO_LIMIT]
        return min(limits, default=0)

    def _groups(self) -> list[Path]:
        """Name the files with the limits of the group of this process and of those around it."""
        found = [self._cgroups / "memory.max", self._cgroups / "memory/memory.limit_in_bytes"]
        try:
            lines = (self._proc / "cgroup").read_text().splitlines()
        except OSError:
            return found
        for line in lines:
            _, controllers, path = line.split(":", 2)
            parts = [each for each in path.split("/") if each not in ("", "..")]
            for end in range(1, len(parts) + 1):
                inside = "/".join(parts[:end])
                if not controllers:
                    found.append(self._cgroups / inside / "memory.max")
                elif "memory" in controllers.split(","):
                    found.append(self._cgroups / "memory" / inside / "memory.limit_in_bytes")
        return found

    def give_back(self) -> None:
        if self._trim is not None:
            self._trim(0)


def _number_in(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
