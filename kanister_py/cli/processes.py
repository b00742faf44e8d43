"""Processes of a server: their number, and the link to the one that starts them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Self


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Count the cores that this process may use: by its mask, and by the quota of its container."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = (cgroup / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, -(-int(quota) // int(period))))


class Link:
    """Link of one of several processes to the one that has started it."""

    def __init__(self, descriptor: int, port: int) -> None:
        import socket

        self._socket = socket.socket(fileno=descriptor)
        # Programs that a function starts have nothing to do with it.
        self._socket.set_inheritable(False)
        self.port = port

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `DESCRIPTOR:PORT`."""
        descriptor, _, port = text.partition(":")
        if not (descriptor.isdigit() and port.isdigit()):
            raise argparse.ArgumentTypeError(f"must be DESCRIPTOR:PORT, found {text!r}")
        return cls(int(descriptor), int(port))

    def fileno(self) -> int:
        return self._socket.fileno()

    def tell_ready(self) -> None:
        self._socket.send(b".")
