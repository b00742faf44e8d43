"""Refused reads: optional reads that the cluster forbids are not repeated for some time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final, TypeVar

from kanister_py.core.errors import Forbidden
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.ports.clock import Clock

T = TypeVar("T")

# Rights may be granted while the process runs.
_REMEMBERED_SECONDS: Final = 600.0
_MAX_REMEMBERED: Final = 1000


class RefusedReads:
    """Cache of refused reads of one account. Thread-safe.

    Every refusal is an entry in the audit log of the cluster. Use it for optional reads
    only, and not where rights that were just granted must take effect.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._refused: dict[tuple[GroupVersionResource, str, str], tuple[float, Forbidden]] = {}

    def read(
        self,
        ask: Callable[[], T],
        resource: GroupVersionResource,
        namespace: str = "",
        name: str = "",
    ) -> T:
        """Return `ask()`. For ten minutes after a `Forbidden`, raise it again without a request.

        Without a namespace, a refusal applies to all objects of the resource.
        """
        key = (resource, namespace, name if namespace else "")
        with self._lock:
            until, refusal = self._refused.get(key, (0.0, None))
        if refusal is not None and self._clock.monotonic() < until:
            raise refusal
        try:
            return ask()
        except Forbidden as error:
            with self._lock:
                self._refused.pop(key, None)
                if len(self._refused) >= _MAX_REMEMBERED:
                    self._refused.pop(next(iter(self._refused)))
                self._refused[key] = (self._clock.monotonic() + _REMEMBERED_SECONDS, error)
            raise
