"""Random mutations of valid input."""

from __future__ import annotations

import random
from collections.abc import Sequence


def mutated(data: bytes, choose: random.Random) -> bytes:
    """Change, remove or repeat some bytes."""
    changed = bytearray(data)
    for _ in range(choose.randint(1, 3)):
        at = choose.randrange(len(changed))
        how = choose.randrange(4)
        if how == 0:
            changed[at] ^= 1 << choose.randrange(8)
        elif how == 1:
            changed[at] = choose.randrange(256)
        elif how == 2:
            del changed[at : at + choose.randint(1, 4)]
        else:
            other = choose.randrange(len(changed))
            changed[at:at] = changed[other : other + choose.randint(1, 20)]
    return bytes(changed)


def mutated_text(text: str, words: Sequence[str], choose: random.Random) -> str:
    """Remove or repeat parts of a text, or insert some of the words."""
    for _ in range(choose.randint(1, 4)):
        at = choose.randrange(len(text) + 1)
        end = min(len(text), at + choose.randint(0, 8))
        other = choose.randrange(len(text) + 1)
        put = choose.choice((choose.choice(words), text[other : other + choose.randint(1, 20)], ""))
        text = text[:at] + put + text[end:]
    return text
