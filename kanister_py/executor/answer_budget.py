"""Bound on the total size of large function responses that are being processed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, local
from typing import Final

_LARGE_BYTES: Final = 256 << 10
# Parsing a response needs up to ten times its size, and the chart's memory limit is 512 MiB.
DEFAULT_BYTES: Final = 16 << 20


class AnswerBudget:
    """Limit that makes large responses wait until others have been processed.

    Small responses never wait. A thread that processes responses opens a scope, and the end of the
    scope releases all bytes that it took. A scope that has already taken bytes gets more without
    waiting, because two waiting scopes could block each other forever. Thread-safe.
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
            taken_bytes = self._scope.taken
            del self._scope.taken
            if taken_bytes:
                with self._changed:
                    self._taken -= taken_bytes
                    self._changed.notify_all()

    def take(self, size: int) -> None:
        """Wait until a response of this size may be parsed, and count it.

        Outside of a scope, do nothing.
        """
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
