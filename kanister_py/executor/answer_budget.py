"""Bound on the sum of large answers of functions that are being processed at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, local
from typing import Final

_LARGE_BYTES: Final = 256 << 10
# An answer that is read takes up to ten times its size, and the limit of the chart is 512 MiB.
DEFAULT_BYTES: Final = 16 << 20


class AnswerBudget:
    """Large answers wait until others have been processed; small ones never wait.

    A thread that processes answers opens a scope, which gives back all that it took.
    Thread-safe. A scope that holds an answer gets further ones without waiting, because
    two that wait for each other would wait for ever.
    """

    def __init__(self, most_bytes: int = DEFAULT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._changed = Condition()
        self._taken = 0
        self._scope = local()

    @contextmanager
    def scope(self) -> Iterator[None]:
        self._scope.taken = 0
        try:
            yield
        finally:
            taken = self._scope.taken
            del self._scope.taken
            if taken:
                with self._changed:
                    self._taken -= taken
                    self._changed.notify_all()

    def take(self, size: int) -> None:
        """Count an answer of so many bytes, before it is parsed; outside of a scope, do nothing."""
        held = getattr(self._scope, "taken", None)
        if held is None or size < _LARGE_BYTES:
            return
        with self._changed:
            if not held:
                self._changed.wait_for(
                    lambda: not self._taken or self._taken + size <= self._most_bytes
                )
            self._taken += size
            self._scope.taken = held + size
