"""Masking: known secrets in texts and data, and how they read without them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Any, Final

MIN_LENGTH: Final = 6
"""Shorter values are words of every language; masking them would say more than it hides."""

MASK: Final = "***"


class Masker:
    """Hides known secrets in texts: whole, line by line, and as base64 has them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found: set[str] = set()
        for secret in secrets:
            whole = secret.strip()
            found.update(
                each.strip()
                for each in (whole, *whole.splitlines())
                if len(each.strip()) >= MIN_LENGTH
            )
            if len(whole) >= MIN_LENGTH:
                raw = secret.encode("utf-8", "surrogateescape")
                found.add(b64encode(raw).decode())
                found.add(b64encode(raw.strip()).decode())
        # The longest first, or a secret that begins with another would show its end.
        ordered = sorted(found, key=lambda each: (-len(each), each))
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def mask(self, text: str) -> str:
        """Give the text with every known secret in it replaced."""
        if self._pattern is None:
            return text
        return self._pattern.sub(MASK, text)

    def mask_data(self, value: Any) -> Any:
        """Give plain data with every known secret in its texts replaced, keys included."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self.mask(key): self.mask_data(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask_data(each) for each in value]
        return value
