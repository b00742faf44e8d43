"""Digests of short texts, and identities of 128 bits.

By Python's own code: loading OpenSSL, which is faster with much, takes longer than all the
names of a run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b, sha1, sha256
    from typing import Protocol

    class Digest(Protocol):
        """A digest under way."""

        def update(self, data: bytes, /) -> None: ...
        def digest(self) -> bytes: ...
        def hexdigest(self) -> str: ...
else:
    try:
        from _blake2 import blake2b
        from _sha1 import sha1

        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:
        from hashlib import blake2b, sha1, sha256


def quick_sha256(data: bytes = b"") -> Digest:
    """Begin a digest of what may be much: with OpenSSL, where a process has loaded it anyway."""
    loaded = sys.modules.get("hashlib")
    made: Digest = getattr(loaded, "sha256", sha256)(data)
    return made


def uuid_of(sixteen: bytes, version: int) -> str:
    """Write sixteen bytes as a UUID of a version: 4 of random ones, 5 of a digest."""
    raw = bytearray(sixteen)
    raw[6] = raw[6] & 0x0F | version << 4
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


__all__ = ["blake2b", "quick_sha256", "sha1", "sha256", "uuid_of"]
