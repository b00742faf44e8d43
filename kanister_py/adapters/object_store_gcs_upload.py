"""Resumable uploads to Google Cloud Storage, with any number of chunks.

obstore supports only multipart uploads with at most 10,000 parts.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from typing import Any, Final
from urllib.parse import quote

from kanister_py.adapters.object_store_errors import refusal_of
from kanister_py.adapters.object_store_http import Now, StoreHttp, StoreResponse
from kanister_py.adapters.object_store_pieces import resize_chunks
from kanister_py.core.errors import KanisterError, TransientError, UsageError
from kanister_py.core.kube.locations import Location
from kanister_py.ports.object_store import ObjectMissing

GOOGLE: Final = "https://storage.googleapis.com"
_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_PIECE_BYTES: Final = 16 * 1024 * 1024
_TOKEN_SECONDS: Final = 3600


class GcsUploads:
    """Writer of objects in one GCS bucket, as a service account."""

    def __init__(self, location: Location, now: Now) -> None:
        self._location = location
        self._now = now
        self._endpoint = (location.endpoint or GOOGLE).rstrip("/")
        self._http = StoreHttp(location, 1)
        self._token, self._valid_until = "", 0.0

    def put(self, key: str, chunks: Iterable[bytes]) -> int:
        """Write an object atomically."""
        url = (
            f"{self._endpoint}/upload/storage/v1/b/{quote(self._location.bucket)}/o"
            f"?uploadType=resumable&name={quote(key, safe='')}"
        )
        try:
            begun = self._http.send("POST", url, key, self._bearer())
        except ObjectMissing as error:
            raise refusal_of("", self._location, "no bucket named so", key) from error
        session = begun.headers.get("location", "")
        if not session:
            raise refusal_of("StoreRefused", self._location, "returned no upload URL", key)
        try:
            return self._put_pieces(key, session, chunks)
        except BaseException:
            with suppress(KanisterError):
                self._http.send("DELETE", session, key, self._bearer())
            raise

    def _put_pieces(self, key: str, session: str, chunks: Iterable[bytes]) -> int:
        sent, digest = 0, hashlib.md5(usedforsecurity=False)
        pieces = resize_chunks(chunks, lambda _: _PIECE_BYTES)
        piece = next(pieces)
        for following in chain(pieces, (None,)):
            digest.update(piece)
            end = sent + len(piece)
            total = str(end) if following is None else "*"
            span = f"{sent}-{end - 1}" if piece else "*"
            answer = self._http.send(
                "PUT", session, key, {"content-range": f"bytes {span}/{total}"}, piece
            )
            if following is not None:
                _check_accepted(self._location, answer, end)
                piece = following
            sent = end
        self._check(key, answer, base64.b64encode(digest.digest()).decode())
        return sent

    def _check(self, key: str, answer: StoreResponse, expected: str) -> None:
        checksum = json.loads(answer.body or b"{}").get("md5Hash", expected)
        if checksum != expected:
            raise UsageError(
                f"Object {key!r}: the store has checksum {checksum}, not {expected}",
                reason="ObjectDamaged",
            )

    def checksum_of(self, key: str) -> str:
        """Return the MD5 of an object in hex; empty if the store does not report it."""
        bucket, name = quote(self._location.bucket), quote(key, safe="")
        url = f"{self._endpoint}/storage/v1/b/{bucket}/o/{name}?fields=md5Hash"
        answer = self._http.send("GET", url, key, self._bearer())
        return base64.b64decode(json.loads(answer.body).get("md5Hash", "")).hex()

    def _bearer(self) -> dict[str, str]:
        """Return headers with a self-signed token, which Google accepts from service accounts."""
        now = self._now().timestamp()
        if now > self._valid_until - 60:
            account = service_account_of(self._location)
            claims = {
                "iss": account["client_email"],
                "sub": account["client_email"],
                "scope": _SCOPE,
                "iat": int(now),
                "exp": int(now) + _TOKEN_SECONDS,
            }
            header = {"alg": "RS256", "typ": "JWT", "kid": account.get("private_key_id", "")}
            self._token = _signed(header, claims, account["private_key"])
            self._valid_until = now + _TOKEN_SECONDS
        return {"authorization": f"Bearer {self._token}"}


def service_account_of(location: Location) -> dict[str, Any]:
    """Parse the service account in the Secret of a Profile."""
    try:
        account = json.loads(location.credential.secret)
        if account["client_email"] and account["private_key"]:
            return dict(account)
    except (ValueError, KeyError, TypeError):
        pass
    raise refusal_of(
        "CredentialRefused", location, "the Secret contains no JSON key of a service account"
    )


def _signed(header: dict[str, Any], claims: dict[str, Any], key: str) -> str:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
    private = load_pem_private_key(key.encode(), None)
    assert isinstance(private, RSAPrivateKey)
    return f"{text}.{_encoded(private.sign(text.encode(), PKCS1v15(), SHA256()))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _check_accepted(location: Location, answer: StoreResponse, end: int) -> None:
    """Raise an error unless the store has accepted the whole chunk."""
    received_range = answer.headers.get("range", "")
    if answer.status == 308 and received_range and not received_range.endswith(f"-{end - 1}"):
        raise TransientError(
            f"The {location} accepted only {received_range} of {end} bytes",
            reason="StoreUnavailable",
        )
