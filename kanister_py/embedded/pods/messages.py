"""Messages of what starts pods: a line each, between two processes of the same Python.

Read by a program that runs without the package around it: marshal is part of
Python itself, while JSON takes as long to load as Python does to start.
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def line_of(message: dict[str, Any]) -> bytes:
    """Write a message as a line."""
    return marshal.dumps(message).hex().encode() + b"\n"


def message_of(line: bytes) -> dict[str, Any]:
    """Read what `line_of` wrote."""
    read: dict[str, Any] = marshal.loads(bytes.fromhex(line.decode()))  # noqa: S302 - our own
    return read
