"""Memory gate: whether there is memory for new work."""

from __future__ import annotations

import logging
from threading import Lock
from typing import Final

from kanister_py.ports.clock import Clock
from kanister_py.ports.function_runner import mebibytes
from kanister_py.ports.memory import ProcessMemory

_LOG: Final = logging.getLogger(__name__)

_REFUSES_FROM: Final = 0.85
_TAKES_UNTIL: Final = 0.75
_FRESH_SECONDS: Final = 0.2
LOOK_AGAIN_SECONDS: Final = 2.0
"""How soon to ask again after a refusal."""


class MemoryGate:
    """Limit on new work when nearly all memory is in use, until a quarter is free again.

    What is under way goes on: it was begun, and to end it frees what it holds.
    """

    def __init__(
        self, clock: Clock, memory: ProcessMemory | None = None, limit_bytes: int = 0
    ) -> None:
        self._clock = clock
        self._memory = memory
        self.limit_bytes = limit_bytes
        self._lock = Lock()
        self._looked_at = -_FRESH_SECONDS
        self._is_short = False

    def why_refused(self) -> str:
        """Say why nothing new may begin now; empty if it may."""
        if self._memory is None or not self.limit_bytes:
            return ""
        with self._lock:
            self._look(self._memory)
            if not self._is_short:
                return ""
            # The numbers are in the log: this message stays the same while memory is short.
            return f"Waits for memory: most of {mebibytes(self.limit_bytes)} is in use"

    def _look(self, memory: ProcessMemory) -> None:
        now = self._clock.monotonic()
        if now - self._looked_at < _FRESH_SECONDS:
            return
        self._looked_at = now
        used = memory.used_bytes()
        if used >= self._threshold:
            # Memory that the allocator only keeps for later does not count as used.
            memory.give_back()
            used = memory.used_bytes()
        was_short, self._is_short = self._is_short, used >= self._threshold
        if self._is_short is not was_short:
            numbers = f"{mebibytes(used)} of {mebibytes(self.limit_bytes)} are in use"
            if was_short:
                _LOG.info("There is memory again: %s", numbers)
            else:
                _LOG.warning(
                    "Memory is short: %s. No ActionSet begins and no function is called until "
                    "it is less",
                    numbers,
                )

    @property
    def _threshold(self) -> float:
        return self.limit_bytes * (_TAKES_UNTIL if self._is_short else _REFUSES_FROM)

    @property
    def used_bytes(self) -> int:
        return self._memory.used_bytes() if self._memory is not None else 0
