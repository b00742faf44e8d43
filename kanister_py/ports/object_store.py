"""Object store: the objects of one bucket.

Keys have no leading slash and are used unchanged. All methods are thread-safe. Failures are
`UsageError`s, or `TransientError`s with the reason `StoreUnavailable`. Reasons of usage errors:
`BucketNotFound`, `CredentialRefused`, `AccessDenied`, `WrongRegion`, `ClockSkewed`, `TlsFailed`,
`StorageFull`, `ObjectDamaged` or `StoreRefused`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple, Protocol

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.locations import Location


class ObjectMissing(UsageError, reason="ObjectMissing"):
    """Error for a key without an object."""

    def __init__(self, key: str, store: str) -> None:
        super().__init__(f"There is no object {key!r} in the {store}")
        self.key = key


class StoredObject(NamedTuple):
    """Metadata of one object."""

    key: str
    size: int
    modified: datetime


class UnfinishedUpload(NamedTuple):
    """Upload in parts that was never completed, for example because its process was killed."""

    key: str
    started: datetime


class ObjectStore(Protocol):
    """A bucket, or a folder that replaces one."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """List all objects whose key starts with a prefix; the number is not limited."""

    def head(self, key: str) -> StoredObject:
        """Return the metadata of one object; `ObjectMissing` if there is none."""

    def get(self, key: str) -> Iterator[bytes]:
        """Yield the content of an object.

        Ends normally only if the content is complete and its checksum is correct. Otherwise raises
        an error with the reason `ObjectDamaged`, or `StoreUnavailable` if the download stopped.
        """

    def put(self, key: str, chunks: Iterable[bytes]) -> int:
        """Write an object from chunks of any size, and return its size in bytes.

        The write is atomic: if `chunks` raises an error, an existing object is not changed. Memory
        use does not depend on the size of the object.
        """

    def delete(self, keys: Iterable[str]) -> int:
        """Delete objects, and return their number. Keys without an object are not an error."""

    def unfinished(self, prefix: str) -> Iterator[UnfinishedUpload]:
        """List the uploads in parts below a prefix whose parts still occupy space.

        Only S3 keeps such parts until they are removed; other stores have none.
        """

    def check(self) -> None:
        """Raise an error unless the bucket exists and may be listed."""


class ObjectStores(Protocol):
    """Opener of the object stores of Profiles."""

    def open(self, location: Location) -> ObjectStore:
        """Return the store of a location, without sending a request."""

    def place_of(self, location: Location) -> Location:
        """Return the location itself, or the folder that replaces it."""

    def with_keys(self, location: Location) -> Location:
        """Return the location with credentials that need no other identity: a role is assumed."""

    def addresses_of(self, location: Location) -> frozenset[str]:
        """Resolve the IP addresses of the location's server. A folder has none."""
