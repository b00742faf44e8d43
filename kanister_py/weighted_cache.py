"""Cache whose entries have weights, such as their size in bytes, with a limit on the sum."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class WeightedCache(Generic[Key, Value]):
    """Thread-safe cache that drops the least recently used entries above a total weight."""

    def __init__(self, max_weight: int) -> None:
        self._max_weight = max_weight
        self._lock = Lock()
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._weight = 0

    def get(self, key: Key) -> Value | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Key, value: Value, weight: int) -> list[int]:
        """Store an entry unless it alone is too heavy; return the weights of dropped entries."""
        with self._lock:
            before = self._entries.pop(key, None)
            if before is not None:
                self._weight -= before[1]
            if weight > self._max_weight:
                return []
            self._entries[key] = (value, weight)
            self._weight += weight
            dropped = []
            while self._weight > self._max_weight:
                dropped.append(self._entries.popitem(last=False)[1][1])
                self._weight -= dropped[-1]
            return dropped

    def discard(self, key: Key) -> None:
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self._weight -= entry[1]

    def discard_all(self, is_dropped: Callable[[Value], bool]) -> None:
        """Drop the entries whose values meet a condition."""
        with self._lock:
            for key in [key for key, (value, _) in self._entries.items() if is_dropped(value)]:
                self._weight -= self._entries.pop(key)[1]

    @property
    def weight(self) -> int:
        return self._weight

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
