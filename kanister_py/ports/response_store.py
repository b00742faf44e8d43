"""Response store: cached responses of composition functions."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kanister_py.core.compositions.cache_keys import CacheKey
from kanister_py.core.compositions.messages import FunctionResponse


class StoredResponse(NamedTuple):
    """A response, and its expiry time in seconds since the epoch."""

    response: FunctionResponse
    deadline: float


class WriteResult(NamedTuple):
    """Result of a write: zero bytes if it failed, and the number of evicted bytes."""

    bytes: int = 0
    deleted: int = 0
    deleted_bytes: int = 0


class ResponseStore(Protocol):
    """Cache of responses with limited space. Thread-safe."""

    def read(self, key: CacheKey) -> StoredResponse | None:
        """Return the stored response for a key, even if expired; None if unreadable."""

    def write(self, key: CacheKey, stored: StoredResponse) -> WriteResult:
        """Store a response. A failure to store it is not an error."""
