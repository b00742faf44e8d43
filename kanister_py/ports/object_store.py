"""Object store: the keys of one bucket and the bytes behind them.

Keys are exact texts, without a slash in front. Every call may come from any thread.
Failures are `UsageError`s, and `TransientError`s with the reason `StoreUnavailable`; their
reasons say what is wrong: `BucketNotFound`, `CredentialRefused`, `AccessDenied`,
`WrongRegion`, `ClockSkewed`, `TlsFailed`, `StorageFull`, `ObjectDamaged` or `StoreRefused`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple, Protocol

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.locations import Location


class ObjectMissing(UsageError, reason="ObjectMissing"):
    """There is no object under a key."""

    def __init__(self, key: str, store: str) -> None:
        super().__init__(f"There is no object {key!r} in the {store}")
        self.key = key


class StoredObject(NamedTuple):
    """One object, without its bytes."""

    key: str
    size: int
    modified: datetime


class UnfinishedUpload(NamedTuple):
    """Upload in parts that was never completed, for example because its process was killed."""

    key: str
    started: datetime


class ObjectStore(Protocol):
    """A bucket, or a folder in its place."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Give every object whose key begins with a text, however many there are."""

    def head(self, key: str) -> StoredObject:
        """Describe one object; `ObjectMissing` if there is none."""

    def get(self, key: str) -> Iterator[bytes]:
        """Give the bytes of an object.

        Ends only when all have come and are what was put: else an error with the reason
        `ObjectDamaged`, or `StoreUnavailable` where they stopped coming.
        """

    def put(self, key: str, chunks: Iterable[bytes]) -> int:
        """Write an object from pieces of any size, and say how many bytes it has.

        It is there whole, after the call, or not at all: an error of `chunks` leaves
        what was there before. Memory does not grow with the object.
        """

    def delete(self, keys: Iterable[str]) -> int:
        """Remove objects, and say how many; one that is gone already is no error."""

    def unfinished(self, prefix: str) -> Iterator[UnfinishedUpload]:
        """List the uploads in parts below a prefix whose parts still take up space.

        Only S3 keeps such parts until they are removed; other stores have none.
        """

    def check(self) -> None:
        """Raise unless the bucket is there and may be listed."""


class ObjectStores(Protocol):
    """Where the stores that Profiles name are opened."""

    def open(self, location: Location) -> ObjectStore:
        """Open a store; nothing is asked of it yet."""

    def place_of(self, location: Location) -> Location:
        """Say what is opened for a location: itself, or a folder that stands in for it."""

    def with_keys(self, location: Location) -> Location:
        """Give the location with keys that open it by themselves: a role is taken on."""

    def addresses_of(self, location: Location) -> frozenset[str]:
        """Resolve the IP addresses of the location's server; a folder has none."""
