"""Visible texts: control characters shown instead of obeyed by a terminal."""

from __future__ import annotations

import unicodedata
from typing import Final

_NOT_SHOWN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Controls, signs that turn the direction of a text, halves of signs, other ends of lines."""


def printable(text: str, keeps: str = "") -> str:
    """Write out what would steer a terminal or turn the direction of its text."""
    if text.isprintable():
        return text
    return "".join(
        each.encode("unicode_escape").decode()
        if unicodedata.category(each) in _NOT_SHOWN and each not in keeps
        else each
        for each in text
    )
