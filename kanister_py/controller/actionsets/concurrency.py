"""Queues of ActionSets that share a concurrency key or a limit.

ActionSets of one namespace with the same `kanister-py.io/concurrency-key`, as an annotation or
a label, run one at a time, oldest first. A limit restricts how many ActionSets with an action
of a Blueprint run at once, in one namespace or in all together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from heapq import nsmallest
from operator import itemgetter
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

from kanister_py.controller.actionsets.projection import Live, actions_of
from kanister_py.core.errors import UsageError
from kanister_py.executor.watch_cache import ObjectKey

_LIMIT: Final = re.compile(
    r"(?:(?P<namespace>[a-z0-9-]+)/)?(?P<blueprint>\*|[a-z0-9.-]+)"
    r"(?::(?P<action>[^=\s]+))?=(?P<at_once>[1-9][0-9]{0,5})"
)


class Limit(NamedTuple):
    """Maximum number of matching ActionSets that run at once. Empty fields match everything."""

    namespace: str
    blueprint: str
    action: str
    at_once: int

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        action = f":{self.action}" if self.action else ""
        return f"{where}{self.blueprint or '*'}{action}={self.at_once}"

    def matches(self, namespace: str, blueprint: str, action: str) -> bool:
        return all(
            not pattern or pattern == value
            for pattern, value in zip(self[:3], (namespace, blueprint, action), strict=True)
        )


def parse_limit(text: str) -> Limit:
    """Parse `[NAMESPACE/]BLUEPRINT[:ACTION]=N`; the Blueprint `*` stands for all."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise UsageError(
            f"must be [NAMESPACE/]BLUEPRINT[:ACTION]=N, such as shop/mysql=2, found {text!r}",
            reason="InvalidLimit",
        )
    blueprint = match["blueprint"]
    return Limit(
        match["namespace"] or "",
        "" if blueprint == "*" else blueprint,
        match["action"] or "",
        int(match["at_once"]),
    )


class Queue(NamedTuple):
    """Queue of a concurrency key, or of a limit, which has no namespace."""

    namespace: str
    name: str
    at_once: int = 1

    def why_waiting(self, before: ObjectKey) -> str:
        if self.namespace:
            return f"Waiting for {before} (concurrency key {self.name})"
        return f"Waiting for other ActionSets to end (limit {self.name})"


Queues: TypeAlias = tuple[Queue, ...]


def queues_of(
    key: ObjectKey,
    concurrency_key: str,
    limits: Iterable[Limit],
    actions: Iterable[tuple[str, str, str]],
) -> Queues:
    """Return the queues of an ActionSet.

    An action is a tuple of the namespace and name of its Blueprint, and its own name.
    """
    own = (Queue(key.namespace, concurrency_key),) if concurrency_key else ()
    pairs = tuple(actions)
    return (
        *own,
        *(
            Queue("", str(limit), limit.at_once)
            for limit in limits
            if any(limit.matches(*pair) for pair in pairs)
        ),
    )


class _Place(NamedTuple):
    """Sort key in a queue: running ActionSets come first, then the oldest."""

    is_waiting: bool
    since: datetime
    arrival: int


class Concurrency:
    """All queues and the ActionSets in them.

    All queues have the same order, so the first waiting ActionSet waits only for running ones.
    That excludes deadlocks. Call `leave` for each ActionSet that has ended or was deleted.
    Thread-safe.
    """

    def __init__(self, limits: Sequence[Limit] = ()) -> None:
        self._limits = limits
        self._lock = Lock()
        self._places: dict[Queue, dict[ObjectKey, _Place]] = {}
        self._queues_of: dict[ObjectKey, Queues] = {}
        self._arrivals = 0

    def queues_for(self, key: ObjectKey, cached: Live) -> Queues:
        """Return the queues of an ActionSet: of its concurrency key, and of each limit."""
        if not self._limits and not cached.concurrency_key:
            return ()
        actions = actions_of(cached) if self._limits else ()
        return queues_of(key, cached.concurrency_key, self._limits, actions)

    def enter(self, key: ObjectKey, queues: Queues, since: datetime, *, is_waiting: bool) -> None:
        """Add an ActionSet to queues, ordered by its age."""
        with self._lock:
            before = self._place_of(key)
            if self._queues_of.get(key, queues) != queues:
                self._leave(key)
            if before is not None:
                # A running ActionSet does not go back to waiting.
                place = before._replace(is_waiting=is_waiting and before.is_waiting)
            else:
                self._arrivals += 1
                place = _Place(is_waiting, since, self._arrivals)
            for queue in queues:
                self._places.setdefault(queue, {})[key] = place
            self._queues_of[key] = queues

    def _place_of(self, key: ObjectKey) -> _Place | None:
        return next((self._places[queue][key] for queue in self._queues_of.get(key, ())), None)

    def waits_in(self, key: ObjectKey) -> tuple[Queue, ObjectKey] | None:
        """Return the queue in which an ActionSet waits, and the ActionSet before it, if any."""
        with self._lock:
            for queue in self._queues_of.get(key, ()):
                places = self._places[queue]
                own = places[key]
                ahead = [other for other, place in places.items() if place < own]
                if len(ahead) >= queue.at_once:
                    return queue, max(ahead, key=places.__getitem__)
        return None

    def leave(self, key: ObjectKey) -> list[ObjectKey]:
        """Remove an ActionSet from its queues.

        Returns the ActionSets to reconcile: those that may start now, and those that waited
        directly for this one.
        """
        if key not in self._queues_of:
            return []
        with self._lock:
            return self._leave(key)

    def _leave(self, key: ObjectKey) -> list[ObjectKey]:
        moved: dict[ObjectKey, None] = {}
        for queue in self._queues_of.pop(key, ()):
            places = self._places[queue]
            own = places.pop(key)
            if not places:
                del self._places[queue]
                continue
            behind = (other for other, place in places.items() if place > own)
            following = min(behind, key=places.__getitem__, default=None)
            if following is not None:
                moved[following] = None
            first = nsmallest(queue.at_once, places.items(), key=itemgetter(1))
            moved |= {other: None for other, place in first if place.is_waiting}
        return list(moved)
