"""Masking of known secrets in texts and data."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

MIN_LENGTH: Final = 6
"""Shorter values are words of every language; masking them would say more than it hides."""

MASK: Final = "***"


# Files have more lines: each of those is hidden as it is, and the forms are those of the whole.
_MOST_LINES_IN_FORMS: Final = 64
_LONGEST_IN_FORMS: Final = 16 << 10
_FEW: Final = 64
"""Up to so many texts, a search for each is faster than an index of all."""


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
        self._mask = _Search(found).masked if len(found) <= _FEW else _Index(found).masked
        self._is_empty = not found

    def mask(self, text: str) -> str:
        """Return the text with every known secret in it replaced."""
        return self._mask(text)

    def mask_data(self, value: Any) -> Any:
        """Give plain data with every known secret in its texts replaced, keys included."""
        if self._is_empty:
            return value
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self.mask(key): self.mask_data(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask_data(each) for each in value]
        return value


class _Search:
    """Search for a few texts, one after the other: the fastest way while they are few."""

    def __init__(self, texts: Iterable[str]) -> None:
        # The longest first, or a text that begins with another would show its end.
        ordered = sorted(texts, key=lambda text: (-len(text), text))
        self._folded = tuple({text.casefold() for text in ordered})
        self._pattern = re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE)

    def masked(self, text: str) -> str:
        folded = text.casefold()
        if not any(secret in folded for secret in self._folded):
            return text
        return self._pattern.sub(MASK, text)


class _Index:
    """Index of many texts by how they begin: a line costs the same however many there are."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._by_start: dict[str, dict[int, set[str]]] = {}
        for text in texts:
            folded = _folded(text)
            lengths = self._by_start.setdefault(folded[:MIN_LENGTH], {})
            lengths.setdefault(len(folded), set()).add(folded)

    def masked(self, text: str) -> str:
        folded = _folded(text)
        pieces: list[str] = []
        kept = at = 0
        while at <= len(folded) - MIN_LENGTH:
            lengths = self._by_start.get(folded[at : at + MIN_LENGTH])
            length = 0 if lengths is None else _longest(lengths, folded, at)
            if not length:
                at += 1
                continue
            pieces += (text[kept:at], MASK)
            kept = at = at + length
        return "".join((*pieces, text[kept:])) if pieces else text


def _longest(lengths: Mapping[int, Collection[str]], text: str, at: int) -> int:
    """Return the length of the longest member that the text has at a position, or 0."""
    found = (length for length, texts in lengths.items() if text[at : at + length] in texts)
    return max(found, default=0)


def _folded(text: str) -> str:
    """Return the text in small letters, each in its place."""
    folded = text.casefold()
    if len(folded) == len(text):
        return folded
    return "".join(sign if len(sign.casefold()) != 1 else sign.casefold() for sign in text)


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
