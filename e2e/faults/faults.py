"""Faults between a client and its API server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, TypeAlias

from e2e.faults.requests import ApiRequest

REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True)
class Refuse:
    """Answer with an error; with `is_done`, after the API server has processed the request."""

    status: int
    retry_after: int | None = None
    reason: str = ""
    message: str = "injected by the proxy of faults"
    is_done: bool = False


@dataclass(frozen=True)
class Delay:
    """Forward the request after a delay."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """Reset the connection before the request is forwarded or within its response."""

    after_bytes: int | None = None


@dataclass(frozen=True)
class Stall:
    """Stop the response after some bytes, and keep the connection open."""

    after_bytes: int = 0


@dataclass(frozen=True)
class Hold:
    """Hold the request until it is released; with `is_done`, hold its response.

    This gives time to act at exactly this moment, for example to kill the client.
    """

    is_done: bool = False


Fault: TypeAlias = Refuse | Delay | Cut | Stall | Hold


@dataclass
class Injection:
    """One fault and the requests that it applies to. Releases all of them when removed."""

    fault: Fault
    is_meant: Callable[[ApiRequest], bool]
    times: int | None
    skip: int
    hits: list[ApiRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._is_released = threading.Event()
        self._is_removed = False

    def take(self, request: ApiRequest) -> bool:
        """Return whether the fault applies to a request, and count it."""
        if not self.is_meant(request):
            return False
        with self._changed:
            if self._is_removed or (self.times is not None and len(self.hits) >= self.times):
                return False
            if self.skip:
                self.skip -= 1
                return False
            self.hits.append(request)
            self._changed.notify_all()
            return True

    def wait_for_hit(self, count: int = 1, seconds: float = 120.0) -> ApiRequest:
        """Wait until so many requests have met the fault, and return the last of them."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.hits) >= count, seconds):
                raise AssertionError(f"{len(self.hits)} of {count} requests met {self.fault}")
            return self.hits[count - 1]

    @property
    def is_over(self) -> bool:
        return self._is_released.is_set()

    def release(self) -> None:
        """Release requests that are held, stalled or delayed."""
        self._is_released.set()

    def remove(self) -> None:
        """Remove the fault."""
        with self._changed:
            self._is_removed = True
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()
