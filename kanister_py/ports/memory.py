"""Memory of this process."""

from __future__ import annotations

from typing import Protocol


class ProcessMemory(Protocol):
    """Memory of a process, its limit, and a way to give some back."""

    def used_bytes(self) -> int: ...

    def limit_bytes(self) -> int:
        """Say how much the system lets this process have; zero if it sets no limit."""

    def give_back(self) -> None:
        """Let the system have what nobody here uses any more."""
