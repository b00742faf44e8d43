"""Lazy regular expressions, compiled at their first use.

To compile one takes as long as to read many a module, and a command asks few of
those that its modules declare.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final


class _Pattern:
    """Stand-in for a pattern, which hands on what is asked of it."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self._given: Final = (text, flags)

    def __getattr__(self, name: str) -> Any:
        # The standard library keeps the last few hundred that were compiled.
        found = getattr(re.compile(*self._given), name)
        # The next one who asks finds it without coming here.
        setattr(self, name, found)
        return found


if TYPE_CHECKING:

    def pattern_of(text: str, flags: int = 0) -> re.Pattern[str]:
        """Give a regular expression."""

else:
    pattern_of = _Pattern
