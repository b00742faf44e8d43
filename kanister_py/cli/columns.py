"""How many columns of a terminal does a text take, and what of it may be shown there?"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_LONGEST: Final = 4000
"""Of a longer text nobody sees the rest: no terminal is that wide."""

# Colours and cursor movements, titles and hyperlinks, and the other sequences that
# start with an escape: a text that is shown must not steer the terminal.
_ESCAPES: Final = (
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?"
)
_NOT_SHOWN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_ON_TOP: Final = frozenset({"Mn", "Me"})


def clean(text: str) -> str:
    """Give what people may see of a text: in one line, and without anything that acts.

    Of a progress bar that redraws itself the last picture stays.
    """
    if text.isascii() and text.isprintable():
        return text[:_LONGEST]
    # Compiled when the first is met: most runs meet none.
    plain = re.sub(_ESCAPES, "", text[:_LONGEST]).rstrip("\r\n")
    pictures = [each for each in plain.split("\r") if each.strip()]
    plain = (pictures[-1] if pictures else "").replace("\t", " ").replace("\n", " ")
    return "".join(each for each in plain if _is_shown(each))


def _is_shown(sign: str) -> bool:
    # A variation selector makes a sign wide on some terminals and not on others.
    return unicodedata.category(sign) not in _NOT_SHOWN and not "\ufe00" <= sign <= "\ufe0f"


def width_of(text: str) -> int:
    """Count the columns of a clean text: two for wide signs, none for accents of their own."""
    if text.isascii():
        return len(text)
    return sum(map(_width_of_sign, text))


def _width_of_sign(sign: str) -> int:
    if unicodedata.category(sign) in _ON_TOP:
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Give as much of a clean text as fits; what is cut off shows as an ellipsis."""
    if width_of(text) <= width:
        return text
    if width <= 0:
        return ""
    taken, room = [], width - 1
    for sign in text:
        room -= _width_of_sign(sign)
        if room < 0:
            break
        taken.append(sign)
    return "".join(taken).rstrip() + "…"


def padded(text: str, width: int) -> str:
    """Fill a clean text up with blanks."""
    return text + " " * (width - width_of(text))
