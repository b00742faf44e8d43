"""Pods as local processes, for where no kubelet runs.

It runs the commands of blueprints on this machine, with the rights of the user
who started it. Nothing here starts by itself.
"""

from __future__ import annotations

# As type checkers know it: what starts pods loads this, too, and nothing else of the package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

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
