"""Pods as local processes, for where no kubelet runs.

It runs the commands of blueprints on this machine, with the rights of the user
who started it. Nothing here starts by itself.
"""

from __future__ import annotations

import marshal

# As type checkers know it: what starts pods loads this, too, and nothing else of the package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

WARNING: Final = (
    "Pods run as processes on this machine, with your rights; "
    "images are ignored and programs are taken from this machine"
)
"""Warning that a surface gives once, before the first pod."""

SANDBOXED: Final = (
    "Pods run in a sandbox on this machine, which hides homes, other mounts and the network; "
    "images are ignored and programs are taken from this machine"
)
"""The same where pods are sandboxed."""

OWN_FOLDERS: Final = ("dev", "proc", "tmp")
"""The folders that a pod with a root of its own has in place of this machine's."""


# Messages of what starts pods: a line each, between two processes of the same Python. Marshal is
# part of Python itself, while JSON takes as long to load as Python does to start.


def line_of(message: dict[str, Any]) -> bytes:
    """Write a message as a line."""
    return marshal.dumps(message).hex().encode() + b"\n"


def message_of(line: bytes) -> dict[str, Any]:
    """Read what `line_of` wrote."""
    read: dict[str, Any] = marshal.loads(bytes.fromhex(line.decode()))  # noqa: S302 - our own
    return read
