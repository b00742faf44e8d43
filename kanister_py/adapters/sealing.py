"""Sealing: what is kept in files encrypted, and held to its place, with the key of a file."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final

from kanister_py.core.errors import UsageError

_LEAST_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_PURPOSE: Final = b"kanister-py state folder 1"


class SealBroken(UsageError, reason="SealBroken"):
    """A sealed text that cannot be opened: the key is another one, or it was changed."""


class Seal:
    """Encryption of texts with AES-256-GCM. Each is good for the place that it was sealed for."""

    def __init__(self, secret: bytes) -> None:
        # Few runs are encrypted: the others need not wait for the library.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        key = HKDF(SHA256(), 32, salt=None, info=_PURPOSE).derive(secret)
        self._cipher = AESGCM(key)

    @classmethod
    def of_file(cls, path: Path) -> Seal:
        """Take the content of a file as the key, without the spaces and lines at its ends."""
        try:
            secret = path.read_bytes().strip()
        except OSError as error:
            raise UsageError(
                f"The key {path} cannot be read: {error.strerror}", reason="StateKeyUnreadable"
            ) from None
        if len(secret) < _LEAST_BYTES:
            raise UsageError(
                f"The key {path} has {len(secret)} bytes, and {_LEAST_BYTES} by chance are the "
                f"least; `head -c 32 /dev/urandom | base64 > {path}` makes one",
                reason="StateKeyTooShort",
            )
        return cls(secret)

    def close(self, text: bytes, place: str) -> bytes:
        """Encrypt a text, as one line of base64."""
        nonce = os.urandom(_NONCE_BYTES)
        return b64encode(nonce + self._cipher.encrypt(nonce, text, place.encode()))

    def open(self, sealed: bytes, place: str) -> bytes:
        """Give a text as it was before it was sealed for this very place."""
        from cryptography.exceptions import InvalidTag

        try:
            raw = b64decode(sealed, validate=True)
            nonce, rest = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:]
            return self._cipher.decrypt(nonce, rest, place.encode())
        except (InvalidTag, ValueError):
            raise SealBroken(f"{place} cannot be opened with this key") from None
