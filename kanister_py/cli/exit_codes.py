"""Exit codes: the ways in which the process of a command ends."""

from __future__ import annotations

from typing import Final

FINE: Final = 0
FAILED: Final = 1

DEPRECATED: Final = 2
"""What `lint` ends with where versions are deprecated, and nothing is worse."""
REMOVED: Final = 3
"""The same, where versions are removed."""
NO_REPLACEMENT: Final = 4
"""The same, where no version stands in for a removed one."""

FATAL_RESULT: Final = 3
"""What `internal render` ends with when stdout holds what came before a fatal result."""

USAGE: Final = 64
"""The command line cannot be read: EX_USAGE of sysexits."""
LEADERSHIP_LOST: Final = 75
"""Another controller acts now; EX_TEMPFAIL of sysexits: starting again helps."""
CANCELLED: Final = 130
"""As shells say it of a command that Ctrl-C has ended."""
