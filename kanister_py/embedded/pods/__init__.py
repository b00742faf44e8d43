"""Pods as local processes, for where no kubelet runs.

It runs the commands of blueprints on this machine, with the rights of whoever
started it. Nothing here starts by itself.
"""

from typing import Final

WARNING: Final = (
    "Pods run as processes on this machine, with your rights; "
    "images are ignored and programs are taken from this machine"
)
"""What a surface says once, before the first pod."""

SANDBOXED: Final = (
    "Pods run in a sandbox on this machine, which hides homes, other mounts and the network; "
    "images are ignored and programs are taken from this machine"
)
"""The same where pods are sandboxed."""
