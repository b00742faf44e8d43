"""Concurrency keys: which of the ActionSets that share one runs next, and who waits for it.

ActionSets of one namespace that carry the same `kanister-py.io/concurrency-key`, as an
annotation or a label, run one at a time, the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from threading import Lock
from typing import NamedTuple

from kanister_py.controller.machine.watch_cache import ObjectKey


class _Shared(NamedTuple):
    """What only one may hold at a time."""

    namespace: str
    key: str


class _Place(NamedTuple):
    """Where somebody stands in a line: whoever is at work first, then by age."""

    is_waiting: bool
    since: datetime
    arrival: int


class ConcurrencyKeys:
    """All lines, with who stands in them. Whoever left the cluster has to be let go."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._places: dict[_Shared, dict[ObjectKey, _Place]] = {}
        self._key_of: dict[ObjectKey, _Shared] = {}
        self._arrivals = 0

    def stand(self, key: ObjectKey, name: str, since: datetime, *, is_waiting: bool) -> None:
        """Put somebody into a line, where their age puts them."""
        shared = _Shared(key.namespace, name)
        with self._lock:
            if self._key_of.get(key, shared) != shared:
                self._leave(key)
            places = self._places.setdefault(shared, {})
            before = places.get(key)
            if before is not None:
                # Who has begun to work does not go back to waiting.
                is_waiting = is_waiting and before.is_waiting
                places[key] = before._replace(is_waiting=is_waiting)
            else:
                self._arrivals += 1
                places[key] = _Place(is_waiting, since, self._arrivals)
            self._key_of[key] = shared

    def before(self, key: ObjectKey) -> ObjectKey | None:
        """Say who stands right before somebody; nobody if it is their turn."""
        with self._lock:
            shared = self._key_of.get(key)
            if shared is None:
                return None
            places = self._places[shared]
            mine = places[key]
            ahead = [other for other, place in places.items() if other != key and place < mine]
            return max(ahead, key=places.__getitem__, default=None)

    def leave(self, key: ObjectKey) -> list[ObjectKey]:
        """Let somebody go, and say who may have moved up for it."""
        if key not in self._key_of:
            return []
        with self._lock:
            return self._leave(key)

    def _leave(self, key: ObjectKey) -> list[ObjectKey]:
        shared = self._key_of.pop(key, None)
        if shared is None:
            return []
        places = self._places[shared]
        mine = places.pop(key)
        if not places:
            del self._places[shared]
            return []
        behind: Iterable[ObjectKey] = (other for other, place in places.items() if place > mine)
        following = min(behind, key=places.__getitem__, default=None)
        return [following] if following is not None else []
