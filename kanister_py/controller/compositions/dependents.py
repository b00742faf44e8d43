"""Dependents: which composite resources look again when an object changes, and how soon."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.clock import Clock

Who = TypeVar("Who", bound=Hashable)


class Wanted(NamedTuple):
    """Objects that are asked for by what they are: of a kind, a namespace, with labels."""

    resource: GroupVersionResource
    namespace: str
    labels: frozenset[tuple[str, str]]


class Tracker(Generic[Who]):
    """Dependents by the objects they depend on. What is found again after a restart is not kept."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._named: dict[tuple[GroupVersionResource, ObjectKey], set[Who]] = defaultdict(set)
        self._wanted: dict[GroupVersionResource, dict[Wanted, set[Who]]] = defaultdict(dict)
        self._of: dict[Who, tuple[frozenset[Any], frozenset[Wanted]]] = {}

    def track(
        self,
        who: Who,
        named: Iterable[tuple[GroupVersionResource, ObjectKey]],
        wanted: Iterable[Wanted] = (),
    ) -> bool:
        """Replace what a key depends on; say whether there is anything new among it."""
        names, wants = frozenset(named), frozenset(wanted)
        with self._lock:
            before = self._of.get(who, (frozenset(), frozenset()))
            if before == (names, wants):
                return False
            self._drop(who)
            if not names and not wants:
                return False
            self._of[who] = (names, wants)
            for each in names:
                self._named[each].add(who)
            for want in wants:
                self._wanted[want.resource].setdefault(want, set()).add(who)
            return not (names <= before[0] and wants <= before[1])

    def knows(self, who: Who) -> bool:
        """Say whether anything is known that a key depends on."""
        with self._lock:
            return who in self._of

    def forget(self, who: Who) -> None:
        with self._lock:
            self._drop(who)

    def _drop(self, who: Who) -> None:
        names, wants = self._of.pop(who, (frozenset(), frozenset()))
        for each in names:
            found = self._named[each]
            found.discard(who)
            if not found:
                del self._named[each]
        for want in wants:
            kept = self._wanted[want.resource]
            kept[want].discard(who)
            if not kept[want]:
                del kept[want]
            if not kept:
                del self._wanted[want.resource]

    def who_depends_on(
        self, resource: GroupVersionResource, key: ObjectKey, *labels: Mapping[str, str] | None
    ) -> set[Who]:
        """Find the keys that must hear of a change; the labels before and after it both count."""
        with self._lock:
            found = set(self._named.get((resource, key), ()))
            for want, who in self._wanted.get(resource, {}).items():
                if want.namespace and want.namespace != key.namespace:
                    continue
                if any(want.labels <= (each or {}).items() for each in labels):
                    found |= who
            return found

    @property
    def resources(self) -> set[GroupVersionResource]:
        """Say which kinds any key depends on."""
        with self._lock:
            return {each[0] for each in self._named} | set(self._wanted)


class Gate(Generic[Who]):
    """Limit on changes: at once until there are too many; then later, but every one."""

    _BURST: Final = 100.0
    _REFILL: Final = 1.0
    _REMEMBERED: Final = 16

    def __init__(
        self, clock: Clock, *, burst: float = _BURST, refill_per_second: float = _REFILL
    ) -> None:
        self._clock = clock
        self._burst = burst
        self._refill = refill_per_second
        self._lock = Lock()
        self._tokens: dict[Who, tuple[float, float]] = {}
        self._sources: dict[Who, deque[str]] = {}
        self._flooded: set[Who] = set()

    def delay_for(self, who: Who, source: str) -> float:
        """Say after how many seconds to look because of a change; 0 is at once."""
        now = self._clock.monotonic()
        with self._lock:
            tokens, since = self._tokens.get(who, (self._burst, now))
            tokens = min(self._burst, tokens + (now - since) * self._refill) - 1.0
            self._sources.setdefault(who, deque(maxlen=self._REMEMBERED)).append(source)
            if tokens >= 0:
                self._tokens[who] = (tokens, now)
                return 0.0
            # Debts do not pile up: one look sees whatever came before it.
            tokens = max(tokens, -1.0)
            self._tokens[who] = (tokens, now)
            self._flooded.add(who)
            return -tokens / self._refill

    def flooded_by(self, who: Who) -> str:
        """Name the source of too many changes for a key; empty if there is none any more."""
        with self._lock:
            if self._seconds_to_calm(who) <= 0:
                self._flooded.discard(who)
                return ""
            return Counter(self._sources[who]).most_common(1)[0][0]

    def calm_after(self, who: Who) -> float | None:
        """Say after how many seconds a flood is over if nothing more comes; None without one.

        The key has to be looked at again then, or the flood would be reported for ever.
        """
        with self._lock:
            seconds = self._seconds_to_calm(who)
            return seconds if seconds > 0 else None

    def _seconds_to_calm(self, who: Who) -> float:
        """Count the seconds until half of what may come at once may come again."""
        if who not in self._flooded:
            return 0.0
        tokens, since = self._tokens[who]
        missing = self._burst / 2 - tokens
        return since + missing / self._refill - self._clock.monotonic()

    def forget(self, who: Who) -> None:
        with self._lock:
            self._tokens.pop(who, None)
            self._sources.pop(who, None)
            self._flooded.discard(who)
