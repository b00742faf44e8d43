"""Who of those that must not run at once goes first, and for whom do the others wait?

ActionSets of one namespace that carry the same `kanister-py.io/concurrency-key`, as an
annotation or a label, run one at a time, the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from threading import Lock
from typing import NamedTuple

from kanister_py.controller.machine.watch_cache import ObjectKey


class Line(NamedTuple):
    """What only one may hold at a time."""

    namespace: str
    key: str


class _Place(NamedTuple):
    """Where somebody stands in a line: whoever is at work first, then by age."""

    is_waiting: bool
    since: datetime
    arrival: int


class Lines:
    """All lines, with who stands in them. Whoever left the cluster has to be let go."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._places: dict[Line, dict[ObjectKey, _Place]] = {}
        self._line_of: dict[ObjectKey, Line] = {}
        self._arrivals = 0

    def stand(self, key: ObjectKey, name: str, since: datetime, *, is_waiting: bool) -> None:
        """Put somebody into a line, where their age puts them."""
        line = Line(key.namespace, name)
        with self._lock:
            if self._line_of.get(key, line) != line:
                self._leave(key)
            places = self._places.setdefault(line, {})
            before = places.get(key)
            if before is not None:
                # Who has begun to work does not go back to waiting.
                is_waiting = is_waiting and before.is_waiting
                places[key] = before._replace(is_waiting=is_waiting)
            else:
                self._arrivals += 1
                places[key] = _Place(is_waiting, since, self._arrivals)
            self._line_of[key] = line

    def before(self, key: ObjectKey) -> ObjectKey | None:
        """Say who stands right before somebody; nobody if it is their turn."""
        with self._lock:
            line = self._line_of.get(key)
            if line is None:
                return None
            places = self._places[line]
            mine = places[key]
            ahead = [other for other, place in places.items() if other != key and place < mine]
            return max(ahead, key=places.__getitem__, default=None)

    def leave(self, key: ObjectKey) -> list[ObjectKey]:
        """Let somebody go, and say who may have moved up for it."""
        if key not in self._line_of:
            return []
        with self._lock:
            return self._leave(key)

    def _leave(self, key: ObjectKey) -> list[ObjectKey]:
        line = self._line_of.pop(key, None)
        if line is None:
            return []
        places = self._places[line]
        mine = places.pop(key)
        if not places:
            del self._places[line]
            return []
        behind: Iterable[ObjectKey] = (other for other, place in places.items() if place > mine)
        following = min(behind, key=places.__getitem__, default=None)
        return [following] if following is not None else []
