"""Masking of known secrets in texts and data."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote, quote_plus

MIN_LENGTH: Final = 6
"""Shorter values are words of every language; masking them would say more than it hides."""

MASK: Final = "***"


# Files have more lines: each of those is hidden as it is, and the forms are those of the whole.
_MOST_LINES_IN_FORMS: Final = 64
_LONGEST_IN_FORMS: Final = 16 << 10


class Masker:
    """Masker of known secrets in texts: whole and line by line, in either case, and encoded.

    Encoded is what base64, JSON, URLs and hexadecimal numbers make of them, base64 also
    where they stand behind something else, as in `user:password`.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found: set[str] = set()
        for secret in secrets:
            whole = secret.strip()
            lines = [each.strip() for each in whole.splitlines()]
            shown = [each for each in (whole, *lines) if len(each) >= MIN_LENGTH]
            found.update(shown)
            for each in {secret, *shown} if len(lines) <= _MOST_LINES_IN_FORMS else {secret, whole}:
                if MIN_LENGTH <= len(each) <= _LONGEST_IN_FORMS:
                    found.update(_forms_of(each))
        # The longest first, or a secret that begins with another would show its end.
        ordered = sorted(found, key=lambda each: (-len(each), each))
        # To look for each is many times as fast as the pattern, and nearly always enough.
        self._folded = tuple({each.casefold() for each in ordered})
        self._pattern = re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE)

    def mask(self, text: str) -> str:
        """Give the text with every known secret in it replaced."""
        folded = text.casefold()
        if not any(each in folded for each in self._folded):
            return text
        return self._pattern.sub(MASK, text)

    def mask_data(self, value: Any) -> Any:
        """Give plain data with every known secret in its texts replaced, keys included."""
        if not self._folded:
            return value
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self.mask(key): self.mask_data(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask_data(each) for each in value]
        return value


def _forms_of(secret: str) -> Iterator[str]:
    """Give what becomes of a secret on its way through what others write."""
    raw = secret.encode("utf-8", "surrogateescape")
    yield json.dumps(secret)[1:-1].strip()
    yield json.dumps(secret, ensure_ascii=False)[1:-1].strip()
    yield from (quote(raw, safe=""), quote(raw), quote_plus(raw), raw.hex())
    for text in _in_base64(raw):
        yield text
        yield text.translate(_URL_ALPHABET)


def _in_base64(raw: bytes) -> Iterator[str]:
    """Give what base64 makes of bytes, with what comes before and after them left out."""
    yield b64encode(raw).decode()
    for before in range(3):
        begin = -(-before * 8 // 6)
        inside = b64encode(bytes(before) + raw).decode()[begin : (before + len(raw)) * 8 // 6]
        if len(inside) >= MIN_LENGTH:
            yield inside


_URL_ALPHABET: Final = str.maketrans("+/", "-_")
