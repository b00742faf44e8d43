"""Pods as local processes, for where no kubelet runs.

It runs the commands of blueprints on this machine, with the rights of the user
who started it. Nothing here starts by itself.
"""

from __future__ import annotations

import json
from typing import Any, Final

WARNING: Final = (
    "Pods run as processes on this machine, with your rights; "
    "images are ignored and programs are taken from this machine"
)
"""Warning that a surface gives once, before the first pod."""

OWN_FOLDERS: Final = ("dev", "proc", "tmp")
"""The folders that a pod with a root of its own has in place of this machine's."""


# Messages between this process and the spawner: a line of JSON each.


def line_of(message: dict[str, Any]) -> bytes:
    """Write a message as a line."""
    return json.dumps(message).encode() + b"\n"


def message_of(line: bytes) -> dict[str, Any]:
    """Read a message that `line_of` wrote."""
    message: dict[str, Any] = json.loads(line)
    return message
