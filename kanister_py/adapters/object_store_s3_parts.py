"""Multipart uploads to S3 with growing parts, so that a terabyte fits into 10,000 of them.

obstore uses parts of one size, so with parts small enough to be buffered, an object could have
only some gigabytes. Requests, also those to STS, are signed here (AWS signature version 4).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from itertools import chain
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit
from xml.etree.ElementTree import Element, ParseError, fromstring

from kanister_py.adapters.object_store_errors import refusal_of, text_between
from kanister_py.adapters.object_store_http import Now, StoreHttp, StoreResponse
from kanister_py.adapters.object_store_pieces import (
    CRC_PREFIX,
    FIRST_PART_BYTES,
    PARTS_OF_ONE_SIZE,
    OpenedObject,
    crc32,
    is_tag_of_parts,
    part_bytes,
    resize_chunks,
    tag_of_parts,
)
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.kube.locations import Credential, Location
from kanister_py.ports.object_store import UnfinishedUpload

DEFAULT_REGION: Final = "us-east-1"
_IN_FLIGHT_BYTES: Final = 8 * 1024 * 1024
_MOST_PARTS: Final = 10_000
_WORKERS: Final = 2
_ROLE_SECONDS: Final = 12 * 3600
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_EMPTY: Final = hashlib.sha256(b"").hexdigest()
MD5_MARK: Final = "kanister-py-md5"
MD5_MARK_HEADER: Final = f"x-amz-meta-{MD5_MARK}"
PARTS_MARK: Final = "kanister-py-parts"
_CRC_OF_ALL: Final = {"x-amz-checksum-type": "FULL_OBJECT"}
_PARTS_MARK_VALUE: Final = f"{FIRST_PART_BYTES}/{PARTS_OF_ONE_SIZE}"


class Signer(NamedTuple):
    """Signer of requests for an access key, with a `token` for temporary keys."""

    key_id: str
    secret: str
    region: str
    token: str = ""
    service: str = "s3"

    def headers(
        self,
        method: str,
        url: str,
        own_headers: Mapping[str, str],
        payload_hash: str,
        now: datetime,
    ) -> dict[str, str]:
        """Return the headers of a request, including its signature."""
        parts = urlsplit(url)
        stamp = now.strftime("%Y%m%dT%H%M%SZ")
        headers = {
            **{key.lower(): value for key, value in own_headers.items()},
            "host": parts.netloc,
            "x-amz-content-sha256": payload_hash,
            "x-amz-date": stamp,
            **({"x-amz-security-token": self.token} if self.token else {}),
        }
        names = ";".join(sorted(headers))
        canonical = "\n".join(
            [
                method,
                parts.path or "/",
                "&".join(sorted(parts.query.split("&"))) if parts.query else "",
                *(f"{name}:{headers[name].strip()}" for name in sorted(headers)),
                "",
                names,
                payload_hash,
            ]
        )
        scope = f"{stamp[:8]}/{self.region}/{self.service}/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        key = f"AWS4{self.secret}".encode()
        for step in scope.split("/"):
            key = hmac.digest(key, step.encode(), "sha256")
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
        signature = hmac.new(key, text.encode(), "sha256").hexdigest()
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={self.key_id}/{scope}, "
            f"SignedHeaders={names}, Signature={signature}"
        )
        return {**headers, "authorization": authorization}


class S3Parts:
    """Writer of objects in one S3 bucket; large ones are uploaded in parts."""

    def __init__(self, location: Location, endpoint: str, signer: Signer, now: Now) -> None:
        self._location = location
        self._bucket_url = f"{endpoint}/{quote(location.bucket)}"
        self._signer = signer
        self._now = now
        self._http = StoreHttp(location, _WORKERS + 1)

    def put(self, key: str, chunks: Iterable[bytes]) -> int:
        """Write an object atomically."""
        parts = resize_chunks(chunks, part_bytes)
        first = next(parts)
        if len(first) < FIRST_PART_BYTES:
            digest = hashlib.md5(first, usedforsecurity=False).hexdigest()
            self._send_bytes(key, "", first, {MD5_MARK_HEADER: digest})
            return len(first)
        mark = {f"x-amz-meta-{PARTS_MARK}": _PARTS_MARK_VALUE, **_CRC_OF_ALL}
        mark["x-amz-checksum-algorithm"] = "CRC32"
        begun = self._parse(self._send("POST", key, "uploads=", b"", mark).body)
        upload = begun.findtext("UploadId", "")
        try:
            return self._put_parts(key, upload, chain((first,), parts))
        except BaseException:
            # Parts of an abandoned upload are invisible, but cost money.
            with suppress(KanisterError):
                self._send("DELETE", key, f"uploadId={quote(upload, safe='')}", b"")
            raise

    def open(self, key: str) -> OpenedObject:
        """Open an object for reading."""
        url = self._url_of(key)
        own_headers = {"x-amz-checksum-mode": "ENABLED"}
        signed = self._signer.headers("GET", url, own_headers, _EMPTY, self._now())
        headers, pieces = self._http.open(url, key, signed)
        return OpenedObject(int(headers.get("content-length", 0)), _checksum_in(headers), pieces)

    def unfinished(self, prefix: str) -> Iterator[UnfinishedUpload]:
        """List the uploads in parts below a prefix that were neither completed nor aborted."""
        after: dict[str, str] = {}
        while True:
            query = urlencode({"prefix": prefix, "uploads": "", **after}, quote_via=quote)
            headers = self._signer.headers(
                "GET", f"{self._bucket_url}?{query}", {}, _EMPTY, self._now()
            )
            answer = self._http.send("GET", f"{self._bucket_url}?{query}", "", headers)
            page = self._parse(answer.body)
            for upload in page.iterfind("Upload"):
                started = datetime.fromisoformat(upload.findtext("Initiated", ""))
                yield UnfinishedUpload(upload.findtext("Key", ""), started)
            following = {
                "key-marker": page.findtext("NextKeyMarker", ""),
                "upload-id-marker": page.findtext("NextUploadIdMarker", ""),
            }
            if page.findtext("IsTruncated") != "true" or following == after:
                return
            after = following

    def _parse(self, body: bytes) -> Element:
        """Parse an XML response into elements without namespaces."""
        try:
            root = fromstring(body)  # noqa: S314 # expat limits entity expansion, and send() limits the size
        except ParseError as error:
            raise refusal_of(
                "StoreRefused", self._location, f"the response is not XML: {error}"
            ) from error
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        return root

    def _url_of(self, key: str, query: str = "") -> str:
        return f"{self._bucket_url}/{quote(key, safe='/-_.~')}{'?' if query else ''}{query}"

    def _put_parts(self, key: str, upload: str, parts: Iterator[bytes]) -> int:
        total, crc, digests = 0, 0, list[bytes]()
        done: list[tuple[str, str]] = []
        waiting: list[tuple[int, Future[tuple[str, str]]]] = []
        suffix = f"uploadId={quote(upload, safe='')}"
        with ThreadPoolExecutor(_WORKERS, "part") as pool:
            try:
                for number, part in enumerate(parts, 1):
                    if number > _MOST_PARTS:
                        raise refusal_of("TooLarge", self._location, "more than 10,000 parts", key)
                    total += len(part)
                    digest = hashlib.md5(part, usedforsecurity=False).digest()
                    digests.append(digest)
                    crc = crc32(part, crc)
                    query = f"partNumber={number}&{suffix}"
                    waiting.append(
                        (len(part), pool.submit(self._put_part, key, query, part, digest))
                    )
                    while waiting and sum(size for size, _ in waiting) > _IN_FLIGHT_BYTES:
                        done.append(waiting.pop(0)[1].result())
                    del part
                done += [future.result() for _, future in waiting]
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        self._complete(key, suffix, done, digests, crc)
        return total

    def _put_part(self, key: str, query: str, part: bytes, digest: bytes) -> tuple[str, str]:
        """Upload a part, and return its ETag and its CRC."""
        crc = _encoded_crc(crc32(part))
        headers = {"content-md5": base64.b64encode(digest).decode(), "x-amz-checksum-crc32": crc}
        return self._send("PUT", key, query, part, headers).headers.get("etag", ""), crc

    def _complete(
        self, key: str, query: str, done: list[tuple[str, str]], digests: list[bytes], crc: int
    ) -> None:
        listed = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag>"
            f"<ChecksumCRC32>{part_crc}</ChecksumCRC32></Part>"
            for number, (tag, part_crc) in enumerate(done, 1)
        )
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        headers = {**_CRC_OF_ALL, "x-amz-checksum-crc32": _encoded_crc(crc)}
        answer = self._send("POST", key, query, body, headers)
        if b"<Error>" in answer.body:
            # A store may respond with status 200 and report an error later.
            raise refusal_of("", self._location, answer.body.decode("utf-8", "replace"), key)
        stored_tag = self._parse(answer.body).findtext("ETag", "").strip('"')
        expected = tag_of_parts(digests)
        if (
            is_tag_of_parts(stored_tag)
            and stored_tag != expected
            and not _is_encrypted(self._send("HEAD", key, "", b"").headers)
        ):
            raise UsageError(
                f"Object {key!r}: the store has checksum {stored_tag}, not {expected}",
                reason="ObjectDamaged",
            )

    def _send_bytes(
        self, key: str, query: str, body: bytes, headers: Mapping[str, str]
    ) -> StoreResponse:
        digest = hashlib.md5(body, usedforsecurity=False).digest()
        return self._send(
            "PUT", key, query, body, {**headers, "content-md5": base64.b64encode(digest).decode()}
        )

    def _send(
        self,
        method: str,
        key: str,
        query: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
    ) -> StoreResponse:
        url = self._url_of(key, query)
        payload_hash = _UNSIGNED if body else _EMPTY
        signed = self._signer.headers(method, url, headers or {}, payload_hash, self._now())
        return self._http.send(method, url, key, signed, body)


def _checksum_in(headers: Mapping[str, str]) -> str:
    """Return the expected checksum of an object: its own, or that of parts that we uploaded."""
    if MD5_MARK_HEADER in headers:
        return headers[MD5_MARK_HEADER]
    crc = headers.get("x-amz-checksum-crc32", "")
    if crc and headers.get("x-amz-checksum-type") == "FULL_OBJECT":
        return CRC_PREFIX + base64.b64decode(crc).hex()
    tag = headers.get("etag", "").strip('"')
    is_ours = headers.get(f"x-amz-meta-{PARTS_MARK}") == _PARTS_MARK_VALUE
    return tag if is_ours and is_tag_of_parts(tag) and not _is_encrypted(headers) else ""


def _encoded_crc(crc: int) -> str:
    return base64.b64encode(crc.to_bytes(4, "big")).decode()


def _is_encrypted(headers: Mapping[str, str]) -> bool:
    """Return True if the ETag is not a checksum because the object is encrypted with a KMS key."""
    return headers.get("x-amz-server-side-encryption", "") not in {"", "AES256"}


def assume_role(location: Location, now: Now) -> Location:
    """Assume the role in a Profile's Secret, and return the location with its keys.

    Uses the STS endpoint of the region, or that of AWS_ENDPOINT_URL_STS.
    """
    credential, region = location.credential, location.region or DEFAULT_REGION
    override = os.environ.get("AWS_ENDPOINT_URL_STS", "").rstrip("/")
    url = override or f"https://sts.{region}.amazonaws.com"
    body = urlencode(
        {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": credential.role,
            "RoleSessionName": "kanister-py",
            "DurationSeconds": str(_ROLE_SECONDS),
        }
    ).encode()
    signer = Signer(credential.id, credential.secret, region, service="sts")
    headers = signer.headers(
        "POST",
        f"{url}/",
        {"content-type": "application/x-www-form-urlencoded"},
        hashlib.sha256(body).hexdigest(),
        now(),
    )
    answer = StoreHttp(location, 1).send("POST", f"{url}/", "", headers, body)
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
    text = answer.body.decode("utf-8", "replace")
    identity, secret, token = (text_between(text, f"<{name}>", f"</{name}>") for name in names)
    if not (identity and secret and token):
        raise refusal_of("CredentialRefused", location, "STS returned no keys for the role")
    return location._replace(credential=Credential(identity, secret, token=token))
