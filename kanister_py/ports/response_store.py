"""Response store: answers of composition functions, kept until they are too old."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kanister_py.core.compositions.cache_keys import CacheKey
from kanister_py.core.compositions.messages import FunctionResponse


class Kept(NamedTuple):
    """An answer, and the time in seconds since the epoch until which it holds."""

    response: FunctionResponse
    deadline: float


class Written(NamedTuple):
    """Outcome of keeping an answer: no bytes if it could not be kept, and what had to go."""

    bytes: int = 0
    deleted: int = 0
    deleted_bytes: int = 0


class ResponseStore(Protocol):
    """Store of answers, as many as it has room for. Safe to use from many threads."""

    def read(self, key: CacheKey) -> Kept | None:
        """Give what is kept under a key, however old; None if there is nothing readable."""

    def write(self, key: CacheKey, kept: Kept) -> Written:
        """Keep an answer. That it cannot is nobody's failure."""
