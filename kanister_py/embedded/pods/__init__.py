"""Pods as local processes, for machines without a kubelet.

The commands of blueprints run on this machine, with the rights of the user. Nothing starts
unless the user requests it.
"""

from __future__ import annotations

import json
from typing import Any, Final

WARNING: Final = (
    "Pods run as processes on this machine, with your rights; "
    "images are ignored and programs are taken from this machine"
)
"""Warning to print once, before the first pod starts."""

OWN_FOLDERS: Final = ("dev", "proc", "tmp")
"""Folders that are private to a pod with its own root."""


# Messages between this process and the spawner, as lines of JSON.


def line_of(message: dict[str, Any]) -> bytes:
    """Encode a message as a line of JSON."""
    return json.dumps(message).encode() + b"\n"


def message_of(line: bytes) -> dict[str, Any]:
    """Decode a message that `line_of` encoded."""
    message: dict[str, Any] = json.loads(line)
    return message
