"""Escaping of control characters in output for terminals."""

from __future__ import annotations

import unicodedata
from typing import Final

_ESCAPED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories of control, format, surrogate, private and separator characters."""


def printable(text: str, keeps: str = "") -> str:
    """Escape characters that control a terminal or change the direction of text."""
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _ESCAPED_CATEGORIES and character not in keeps
        else character
        for character in text
    )
