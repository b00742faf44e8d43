"""Concurrency: which of the ActionSets that share a key or a limit run next, and who waits.

ActionSets of one namespace that carry the same `kanister-py.io/concurrency-key`, as an
annotation or a label, run one at a time, the oldest first. A limit bounds how many run at
once of those with an action of a Blueprint, over all namespaces that it means.
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
    """How many ActionSets run at once of those that it means; what is empty means all."""

    namespace: str
    blueprint: str
    action: str
    at_once: int

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        action = f":{self.action}" if self.action else ""
        return f"{where}{self.blueprint or '*'}{action}={self.at_once}"

    def means(self, namespace: str, blueprint: str, action: str) -> bool:
        return all(
            not mine or mine == theirs
            for mine, theirs in zip(self[:3], (namespace, blueprint, action), strict=True)
        )


def parse_limit(text: str) -> Limit:
    """Read `[NAMESPACE/]BLUEPRINT[:ACTION]=N`, a Blueprint of `*` for all."""
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
    """What only so many may hold at a time."""

    namespace: str
    name: str
    at_once: int = 1

    def why_waiting(self, before: ObjectKey) -> str:
        if self.namespace:
            return f"Waits for {before} (concurrency key {self.name})"
        return f"Waits for room (limit {self.name})"


Queues: TypeAlias = tuple[Queue, ...]


def queues_of(
    key: ObjectKey,
    concurrency_key: str,
    limits: Iterable[Limit],
    actions: Iterable[tuple[str, str, str]],
) -> Queues:
    """Name the queues of an ActionSet; an action is a namespace, a Blueprint, a name."""
    own = (Queue(key.namespace, concurrency_key),) if concurrency_key else ()
    pairs = tuple(actions)
    return (
        *own,
        *(
            Queue("", str(limit), limit.at_once)
            for limit in limits
            if any(limit.means(*pair) for pair in pairs)
        ),
    )


class _Place(NamedTuple):
    """Place in a queue: what is at work first, then by age."""

    is_waiting: bool
    since: datetime
    arrival: int


class Concurrency:
    """All queues, with the runs in them. What left the cluster has to be let go.

    One order holds in all queues: the first of those that wait waits only for some that
    are at work, so there is always one that goes on.
    """

    def __init__(self, limits: Sequence[Limit] = ()) -> None:
        self._limits = limits
        self._lock = Lock()
        self._places: dict[Queue, dict[ObjectKey, _Place]] = {}
        self._queues_of: dict[ObjectKey, Queues] = {}
        self._arrivals = 0

    def queues_for(self, key: ObjectKey, kept: Live) -> Queues:
        """Return the queues of an ActionSet: of its concurrency key, and of each limit."""
        if not self._limits and not kept.concurrency_key:
            return ()
        actions = actions_of(kept) if self._limits else ()
        return queues_of(key, kept.concurrency_key, self._limits, actions)

    def stand(self, key: ObjectKey, queues: Queues, since: datetime, *, is_waiting: bool) -> None:
        """Put a run into queues, where its age puts it."""
        with self._lock:
            before = self._place_of(key)
            if self._queues_of.get(key, queues) != queues:
                self._leave(key)
            if before is not None:
                # Who has begun to work does not go back to waiting.
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
        """Say in which queue a run waits, and which stands right before; None on its turn."""
        with self._lock:
            for queue in self._queues_of.get(key, ()):
                places = self._places[queue]
                mine = places[key]
                ahead = [other for other, place in places.items() if place < mine]
                if len(ahead) >= queue.at_once:
                    return queue, max(ahead, key=places.__getitem__)
        return None

    def leave(self, key: ObjectKey) -> list[ObjectKey]:
        """Let a run go, and say for which ones it is not as it was."""
        if key not in self._queues_of:
            return []
        with self._lock:
            return self._leave(key)

    def _leave(self, key: ObjectKey) -> list[ObjectKey]:
        moved: dict[ObjectKey, None] = {}
        for queue in self._queues_of.pop(key, ()):
            places = self._places[queue]
            mine = places.pop(key)
            if not places:
                del self._places[queue]
                continue
            behind = (other for other, place in places.items() if place > mine)
            following = min(behind, key=places.__getitem__, default=None)
            if following is not None:
                moved[following] = None
            first = nsmallest(queue.at_once, places.items(), key=itemgetter(1))
            moved |= {other: None for other, place in first if place.is_waiting}
        return list(moved)
