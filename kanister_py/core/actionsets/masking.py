"""Masking of known secrets in texts and data."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

MIN_LENGTH: Final = 6
"""Shorter values are not masked. They also occur in ordinary words, where a mask reveals them."""

MASK: Final = "***"


# Secrets with more lines are assumed to be files. Their lines are masked separately, but only the
# complete text is also searched for in encoded forms.
_MAX_LINES_IN_FORMS: Final = 64
_MAX_LENGTH_IN_FORMS: Final = 16 << 10
_MAX_SEARCHED: Final = 64
"""Up to this number of texts, searching for each text is faster than an index."""


class Masker:
    """Masker of known secrets. Finds values, their single lines, and their encoded forms.

    Upper and lower case are not distinguished. The encodings are base64, JSON, URL and hexadecimal.
    A secret is also found if it was part of a longer text when that was encoded in base64, such as
    `user:password`.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        patterns: set[str] = set()
        for secret in secrets:
            stripped = secret.strip()
            lines = [line.strip() for line in stripped.splitlines()]
            texts = [text for text in (stripped, *lines) if len(text) >= MIN_LENGTH]
            patterns.update(texts)
            for text in (
                {secret, *texts} if len(lines) <= _MAX_LINES_IN_FORMS else {secret, stripped}
            ):
                if MIN_LENGTH <= len(text) <= _MAX_LENGTH_IN_FORMS:
                    patterns.update(_forms_of(text))
        self._mask = (
            _Search(patterns).masked if len(patterns) <= _MAX_SEARCHED else _Index(patterns).masked
        )
        self._is_empty = not patterns

    def mask(self, text: str) -> str:
        """Return the text with all known secrets replaced."""
        return self._mask(text)

    def mask_data(self, value: Any) -> Any:
        """Return JSON data with all known secrets replaced in texts and keys."""
        if self._is_empty:
            return value
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self.mask(key): self.mask_data(child) for key, child in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask_data(member) for member in value]
        return value


class _Search:
    """Search for a few texts, one after the other."""

    def __init__(self, texts: Iterable[str]) -> None:
        # The longest text comes first. Otherwise a shorter secret that is a prefix of it would
        # match, and the rest would stay visible.
        ordered = sorted(texts, key=lambda text: (-len(text), text))
        self._folded = tuple({text.casefold() for text in ordered})
        self._pattern = re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE)

    def masked(self, text: str) -> str:
        folded = text.casefold()
        if not any(secret in folded for secret in self._folded):
            return text
        return self._pattern.sub(MASK, text)


class _Index:
    """Index of many texts by their first characters.

    The time to mask a line does not depend on the number of texts.
    """

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
    """Return the length of the longest matching text at a position, or 0."""
    matches = (length for length, texts in lengths.items() if text[at : at + length] in texts)
    return max(matches, default=0)


def _folded(text: str) -> str:
    """Return the case-folded text. Characters whose folded form is longer stay unchanged.

    The length does not change, so that positions are valid in the original text.
    """
    folded = text.casefold()
    if len(folded) == len(text):
        return folded
    return "".join(char if len(char.casefold()) != 1 else char.casefold() for char in text)


def _forms_of(secret: str) -> Iterator[str]:
    """Yield the encoded forms of a secret."""
    raw = secret.encode("utf-8", "surrogateescape")
    yield json.dumps(secret)[1:-1].strip()
    yield json.dumps(secret, ensure_ascii=False)[1:-1].strip()
    yield from (quote(raw, safe=""), quote(raw), quote_plus(raw), raw.hex())
    for text in _in_base64(raw):
        yield text
        yield text.translate(_URL_ALPHABET)


def _in_base64(raw: bytes) -> Iterator[str]:
    """Yield the base64 encodings of bytes at the three possible offsets in a longer text.

    Characters at the edges are left out, because they also encode bits of neighbouring bytes.
    """
    yield b64encode(raw).decode()
    for before in range(3):
        begin = -(-before * 8 // 6)
        inside = b64encode(bytes(before) + raw).decode()[begin : (before + len(raw)) * 8 // 6]
        if len(inside) >= MIN_LENGTH:
            yield inside


_URL_ALPHABET: Final = str.maketrans("+/", "-_")
