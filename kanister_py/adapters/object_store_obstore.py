"""Object stores based on `obstore`: S3, Google Cloud Storage, Azure, and folders."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.object_store_errors import refusal_of, unreachable
from kanister_py.adapters.object_store_gcs_upload import GOOGLE, GcsUploads, service_account_of
from kanister_py.adapters.object_store_http import Now
from kanister_py.adapters.object_store_pieces import Checksum, OpenedObject, resize_chunks
from kanister_py.adapters.object_store_s3_parts import DEFAULT_REGION, S3Parts, Signer, assume_role
from kanister_py.core.errors import KanisterError, TransientError, UsageError
from kanister_py.core.kube.locations import InvalidProfile, Location, StoreKind
from kanister_py.ports.object_store import (
    ObjectMissing,
    ObjectStore,
    StoredObject,
    UnfinishedUpload,
)

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

_LIST_CHUNK: Final = 1000
_DELETE_BATCH: Final = 250
_DELETING: Final = 4
_GET_CHUNK: Final = 1024 * 1024
_AZURE_BLOCK: Final = 20 * 1024 * 1024
"""Allows objects of one terabyte in 50,000 blocks."""
_AZURE_IN_FLIGHT: Final = 2
_AZURE_MARK: Final = "kanister_py_md5"
_AZURE_SUFFIXES: Final = {
    "": "core.windows.net",
    "azurecloud": "core.windows.net",
    "azurepubliccloud": "core.windows.net",
    "azurechinacloud": "core.chinacloudapi.cn",
    "azureusgovernmentcloud": "core.usgovcloudapi.net",
    "azureusgovernment": "core.usgovcloudapi.net",
}
_LAST: Final = "\U0010ffff"


class _Client(Protocol):
    """Writer for stores to which obstore cannot write objects of a terabyte."""

    def put(self, key: str, chunks: Iterable[bytes]) -> int: ...


class ObstoreStores:
    """Object stores of Profiles. With `locations`, a folder below it replaces every bucket."""

    def __init__(self, locations: Path | None = None) -> None:
        self._folder = "" if locations is None else str(locations.absolute())

    def open(self, location: Location) -> ObjectStore:
        return open_store(self.place_of(location), SystemClock.now)

    def with_keys(self, location: Location) -> Location:
        return with_keys(self.place_of(location), SystemClock.now)

    def place_of(self, location: Location) -> Location:
        return location.in_folder(self._folder) if self._folder else location

    def addresses_of(self, location: Location) -> frozenset[str]:
        location = self.place_of(location)
        if location.kind in {StoreKind.FILE, StoreKind.KOPIA}:
            return frozenset()
        try:
            server = urlsplit(_endpoint_of(location))
            resolved = socket.getaddrinfo(server.hostname, server.port, type=socket.SOCK_STREAM)
        except ValueError as error:
            raise InvalidProfile(f"The {location}: the endpoint is invalid: {error}") from None
        except OSError:
            raise unreachable(location, "dns error") from None
        return frozenset(str(address[0]) for *_, address in resolved)


def with_keys(location: Location, now: Now) -> Location:
    """Return a location with credentials that need no other identity."""
    if not location.credential.role or location.kind is not StoreKind.S3:
        return location
    return assume_role(location, now)


def open_store(location: Location, now: Now) -> ObjectStore:
    """Return the store of a location, without sending a request."""
    match location.kind:
        case StoreKind.S3:
            return _open_s3(location, now)
        case StoreKind.GCS:
            return _open_gcs(location, now)
        case StoreKind.AZURE:
            return _open_azure(location)
        case StoreKind.FILE:
            return open_folder(location)
        case StoreKind.KOPIA:
            raise InvalidProfile(
                "A kopia repository cannot be opened, because kopia is not supported; "
                "use a Profile of type s3Compliant, gcs or azure"
            )


def _client_options(location: Location, endpoint: str) -> Any:
    """Return the client and retry options of a store."""
    return {
        "client_options": {
            "allow_http": endpoint.startswith("http://"),
            "allow_invalid_certificates": location.skip_tls_verify,
            "connect_timeout": timedelta(seconds=10),
            # For a whole request. Large objects may take hours.
            "timeout": timedelta(days=7),
            "read_timeout": timedelta(seconds=120),
        },
        "retry_config": {
            "max_retries": 5,
            "retry_timeout": timedelta(seconds=90),
            "backoff": {
                "init_backoff": timedelta(milliseconds=200),
                "max_backoff": timedelta(seconds=10),
                "base": 2,
            },
        },
    }


def _with_scheme(endpoint: str) -> str:
    trimmed = endpoint.rstrip("/")
    return trimmed if "://" in trimmed or not trimmed else f"https://{trimmed}"


def _endpoint_of(location: Location) -> str:
    """Return the URL of a location's server."""
    if location.endpoint:
        return _with_scheme(location.endpoint)
    match location.kind:
        case StoreKind.S3:
            return f"https://s3.{location.region or DEFAULT_REGION}.amazonaws.com"
        case StoreKind.AZURE:
            credential = location.credential
            suffix = _AZURE_SUFFIXES.get(credential.environment.lower())
            if suffix is None:
                accepted = "AzureCloud, AzureChinaCloud, AzureUSGovernmentCloud"
                raise InvalidProfile(
                    f"Azure environment {credential.environment!r} is unknown; known: {accepted}"
                )
            return f"https://{credential.id}.blob.{suffix}"
        case _:
            return GOOGLE


def _open_s3(location: Location, now: Now) -> ObjectStore:
    _check_credential(location)
    region = location.region or DEFAULT_REGION
    endpoint = _endpoint_of(location)
    location = with_keys(location, now)
    credential = location.credential
    signer = Signer(credential.id, credential.secret, region, credential.token)
    config: Any = {
        "endpoint": endpoint,
        "region": region,
        "access_key_id": signer.key_id,
        "secret_access_key": signer.secret,
    }
    if signer.token:
        config["session_token"] = signer.token

    def store() -> S3Store:
        from obstore.store import S3Store

        return S3Store(location.bucket, config=config, **_client_options(location, endpoint))

    return LibraryStore(location, store, S3Parts(location, endpoint, signer, now))


def _open_gcs(location: Location, now: Now) -> ObjectStore:
    from obstore.store import GCSStore

    service_account_of(location)
    endpoint = _endpoint_of(location)
    with _converted_errors(location):
        store = GCSStore(
            location.bucket,
            config={"service_account_key": location.credential.secret, "base_url": endpoint},
            **_client_options(location, endpoint),
        )
    return LibraryStore(location, lambda: store, GcsUploads(location, now))


def _open_azure(location: Location) -> ObjectStore:
    from obstore.store import AzureStore

    credential = location.credential
    if not credential.id:
        raise InvalidProfile("The storage account is not set in the Secret of the Profile")
    endpoint = _endpoint_of(location)
    key = (
        {"token": credential.federated_token}
        if credential.federated_token and not credential.secret
        else {"account_key": credential.secret}
    )
    config: Any = {"account_name": credential.id, "endpoint": endpoint, **key}
    with _converted_errors(location):
        store = AzureStore(location.bucket, config=config, **_client_options(location, endpoint))
    return LibraryStore(location, lambda: store, None)


def open_folder(location: Location) -> ObjectStore:
    """Return a folder that replaces a bucket: `endpoint` is its parent folder."""
    folder = location.folder
    if not folder.startswith("/"):
        raise InvalidProfile(f"location.endpoint must be a folder, not {location.endpoint!r}")
    if ".." in location.bucket.split("/"):
        raise InvalidProfile(f"Bucket {location.bucket!r} leads out of its folder")
    return Folder(location, Path(folder) / location.bucket.strip("/"))


def _check_credential(location: Location) -> None:
    for value, name in (
        (location.credential.id, "Access key ID"),
        (location.credential.secret, "Secret access key"),
    ):
        if not value:
            raise InvalidProfile(f"{name} is not set in the Secret of the Profile")


@contextmanager
def _converted_errors(location: Location, key: str = "") -> Iterator[None]:
    """Convert exceptions of the library to errors of the project."""
    import obstore.exceptions

    try:
        yield
    except FileNotFoundError as error:
        raise refusal_of("", location, f"{error} status code: 404", key) from error
    except (obstore.exceptions.BaseError, NotImplementedError, OSError, ValueError) as error:
        message = str(error)
        if "status code: " not in message and (
            "HTTP error" in message or "request or response" in message
        ):
            raise unreachable(location, message) from error
        raise refusal_of("", location, message, key) from error


class LibraryStore:
    """Object store based on obstore; `client` writes objects where obstore cannot.

    obstore is imported when it is first needed, because S3 needs it neither to read nor to write
    objects.
    """

    def __init__(
        self,
        location: Location,
        open_store: Callable[[], S3Store | GCSStore | AzureStore | LocalStore],
        client: _Client | None,
    ) -> None:
        self._location = location
        self._open_store = open_store
        self._client = client

    @cached_property
    def _store(self) -> S3Store | GCSStore | AzureStore | LocalStore:
        return self._open_store()

    def list(self, prefix: str) -> Iterator[StoredObject]:
        folder = prefix.rpartition("/")[0]
        # Keys are listed in order, except in folders, so keys before the prefix are skipped.
        is_ordered = self._location.kind is not StoreKind.FILE and bool(prefix)
        before = f"{prefix[:-1]}{chr(ord(prefix[-1]) - 1)}{_LAST}" if is_ordered else None
        with _converted_errors(self._location):
            pages = self._store.list(folder or None, offset=before, chunk_size=_LIST_CHUNK)
        while True:
            with _converted_errors(self._location):
                page = next(pages, None)
            if page is None:
                return
            for entry in page:
                if entry["path"].startswith(prefix):
                    yield StoredObject(entry["path"], entry["size"], entry["last_modified"])
                elif is_ordered and entry["path"] > prefix:
                    return

    def head(self, key: str) -> StoredObject:
        with _converted_errors(self._location, key):
            described = self._store.head(key)
        return StoredObject(key, described["size"], described["last_modified"])

    def get(self, key: str) -> Iterator[bytes]:
        opened = self._client.open(key) if isinstance(self._client, S3Parts) else self._open(key)
        size, checksum = 0, Checksum(opened.checksum)
        try:
            for piece in opened.pieces:
                size += len(piece)
                checksum.feed(piece)
                yield piece
            if size != opened.size:
                got = f"received {size} of {opened.size} bytes"
                message = f"Object {key!r} in the {self._location}: {got}"
                raise TransientError(message, reason="StoreUnavailable")
            checksum.check(key)
        finally:
            checksum.close()

    def _open(self, key: str) -> OpenedObject:
        with _converted_errors(self._location, key):
            result = self._store.get(key)
            pieces = result.stream(min_chunk_size=_GET_CHUNK)
        if isinstance(self._client, GcsUploads):
            checksum = self._client.checksum_of(key)
        else:
            checksum = str(result.attributes.get(_AZURE_MARK, ""))
        return OpenedObject(result.meta["size"], checksum, self._pieces(key, pieces))

    def _pieces(self, key: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
        while True:
            with _converted_errors(self._location, key):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def put(self, key: str, chunks: Iterable[bytes]) -> int:
        if self._client is not None:
            return self._client.put(key, chunks)
        source = _Source(chunks)
        pieces = resize_chunks(source, lambda _: _AZURE_BLOCK)
        first = next(pieces)
        try:
            with _converted_errors(self._location, key):
                if len(first) < _AZURE_BLOCK:
                    self._put_short(key, first)
                else:
                    self._store.put(
                        key,
                        chain((first,), pieces),
                        chunk_size=_AZURE_BLOCK,
                        max_concurrency=_AZURE_IN_FLIGHT,
                    )
        except KanisterError:
            if source.error is not None:
                raise source.error from None
            raise
        return source.size

    def _put_short(self, key: str, data: bytes) -> None:
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        is_file = self._location.kind is StoreKind.FILE
        attributes = None if is_file else {_AZURE_MARK: digest}
        self._store.put(key, data, use_multipart=False, attributes=attributes)

    def delete(self, keys: Iterable[str]) -> int:
        removed, left = 0, iter(keys)
        waiting: list[Future[int]] = []
        # Batches are deleted while the listing continues.
        with ThreadPoolExecutor(_DELETING, "delete") as pool:
            while batch := list(islice(left, _DELETE_BATCH)):
                waiting.append(pool.submit(self._delete_batch, batch))
                if len(waiting) >= _DELETING:
                    removed += waiting.pop(0).result()
            removed += sum(future.result() for future in waiting)
        return removed

    def _delete_batch(self, batch: Sequence[str]) -> int:
        try:
            with _converted_errors(self._location, batch[0]):
                self._store.delete(batch)
        except (ObjectMissing, TransientError):
            # Either a key was already gone, and the library stopped there, or the connection broke,
            # and the library retries single requests but not batches. So delete the keys one by
            # one.
            for key in batch:
                self._delete_one(key)
        return len(batch)

    def _delete_one(self, key: str) -> None:
        with suppress(ObjectMissing), _converted_errors(self._location, key):
            self._store.delete(key)

    def unfinished(self, prefix: str) -> Iterator[UnfinishedUpload]:
        if isinstance(self._client, S3Parts):
            yield from self._client.unfinished(prefix)

    def check(self) -> None:
        with _converted_errors(self._location):
            next(iter(self._store.list(chunk_size=1)), None)


class Folder:
    """A folder that replaces a bucket. It is created with the first object."""

    def __init__(self, location: Location, place: Path) -> None:
        self._location = location
        self._place = place

    def list(self, prefix: str) -> Iterator[StoredObject]:
        if self._exists():
            yield from self._local_store().list(prefix)

    def head(self, key: str) -> StoredObject:
        return self._existing_store(key).head(key)

    def get(self, key: str) -> Iterator[bytes]:
        yield from self._existing_store(key).get(key)

    def put(self, key: str, chunks: Iterable[bytes]) -> int:
        return self._local_store(creates_folder=True).put(key, chunks)

    def delete(self, keys: Iterable[str]) -> int:
        return self._local_store().delete(keys) if self._exists() else 0

    def unfinished(self, prefix: str) -> Iterator[UnfinishedUpload]:
        yield from self._local_store().unfinished(prefix) if self._exists() else ()

    def check(self) -> None:
        if not self._exists():
            message = f"The folder {self._place} does not exist"
            raise UsageError(message, reason="BucketNotFound")
        with _converted_errors(self._location):
            os.scandir(self._place).close()

    def _exists(self) -> bool:
        with _converted_errors(self._location):
            return self._place.is_dir()

    def _existing_store(self, key: str) -> LibraryStore:
        if not self._exists():
            raise ObjectMissing(key, str(self._location))
        return self._local_store()

    def _local_store(self, *, creates_folder: bool = False) -> LibraryStore:
        from obstore.store import LocalStore

        with _converted_errors(self._location):
            store = LocalStore(self._place, mkdir=creates_folder, automatic_cleanup=True)
        return LibraryStore(self._location, lambda: store, None)


class _Source:
    """Iterator over the chunks of an upload that records their size and error."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.size = 0
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._chunks:
                self.size += len(chunk)
                yield chunk
        except BaseException as error:
            self.error = error
            raise
