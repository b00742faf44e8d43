"""Exit codes of commands."""

from __future__ import annotations

from typing import Final

FINE: Final = 0
FAILED: Final = 1

DEPRECATED: Final = 2
"""`lint` found deprecated versions, and nothing worse."""
REMOVED: Final = 3
"""`lint` found removed versions."""
NO_REPLACEMENT: Final = 4
"""`lint` found removed versions without a replacement."""

FATAL_RESULT: Final = 3
"""`internal render` wrote the part of its response before a fatal result."""

USAGE: Final = 64
"""The command line is malformed: EX_USAGE of sysexits.h."""
LEADERSHIP_LOST: Final = 75
"""Another controller holds the Lease: EX_TEMPFAIL of sysexits.h; a restart helps."""
CANCELLED: Final = 130
"""Cancelled, with the code that shells use for a command that Ctrl-C ended."""
