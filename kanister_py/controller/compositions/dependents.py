"""Dependents of objects, and a rate limit on the reconciles that changes cause."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.clock import Clock

Key = TypeVar("Key", bound=Hashable)


class LabelSelection(NamedTuple):
    """Objects of a kind with labels, in one namespace or (if it is empty) in all."""

    resource: GroupVersionResource
    namespace: str
    labels: frozenset[tuple[str, str]]


class DependencyIndex(Generic[Key]):
    """Index of dependents by the objects they depend on, in memory only."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_name: dict[tuple[GroupVersionResource, ObjectKey], set[Key]] = defaultdict(set)
        self._by_labels: dict[GroupVersionResource, dict[LabelSelection, set[Key]]] = defaultdict(
            dict
        )
        self._dependencies: dict[Key, tuple[frozenset[Any], frozenset[LabelSelection]]] = {}

    def track(
        self,
        dependent: Key,
        names: Iterable[tuple[GroupVersionResource, ObjectKey]],
        selections: Iterable[LabelSelection] = (),
    ) -> bool:
        """Replace the dependencies of a key; return whether there are new ones among them."""
        new_names, new_selections = frozenset(names), frozenset(selections)
        with self._lock:
            old_names, old_selections = self._dependencies.get(
                dependent, (frozenset(), frozenset())
            )
            if (old_names, old_selections) == (new_names, new_selections):
                return False
            self._remove(dependent)
            if not new_names and not new_selections:
                return False
            self._dependencies[dependent] = (new_names, new_selections)
            for name in new_names:
                self._by_name[name].add(dependent)
            for selection in new_selections:
                self._by_labels[selection.resource].setdefault(selection, set()).add(dependent)
            return not (new_names <= old_names and new_selections <= old_selections)

    def has_dependencies(self, dependent: Key) -> bool:
        with self._lock:
            return dependent in self._dependencies

    def forget(self, dependent: Key) -> None:
        with self._lock:
            self._remove(dependent)

    def _remove(self, dependent: Key) -> None:
        names, selections = self._dependencies.pop(dependent, (frozenset(), frozenset()))
        for name in names:
            dependents = self._by_name[name]
            dependents.discard(dependent)
            if not dependents:
                del self._by_name[name]
        for selection in selections:
            by_selection = self._by_labels[selection.resource]
            by_selection[selection].discard(dependent)
            if not by_selection[selection]:
                del by_selection[selection]
            if not by_selection:
                del self._by_labels[selection.resource]

    def dependents_of(
        self, resource: GroupVersionResource, key: ObjectKey, *labels: Mapping[str, str] | None
    ) -> set[Key]:
        """Return the keys that depend on a changed object with any of the given labels."""
        with self._lock:
            dependents = set(self._by_name.get((resource, key), ()))
            for selection, keys in self._by_labels.get(resource, {}).items():
                if selection.namespace and selection.namespace != key.namespace:
                    continue
                if any(selection.labels <= (label_set or {}).items() for label_set in labels):
                    dependents |= keys
            return dependents

    @property
    def resources(self) -> set[GroupVersionResource]:
        """Return the kinds that any key depends on."""
        with self._lock:
            return {resource for resource, _key in self._by_name} | set(self._by_labels)


class EventRateLimit(Generic[Key]):
    """Token bucket for each key: changes beyond the limit are delayed, and none is dropped."""

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
        self._tokens: dict[Key, tuple[float, float]] = {}
        self._sources: dict[Key, deque[str]] = {}
        self._flooded: set[Key] = set()

    def delay_for(self, key: Key, source: str) -> float:
        """Return the delay in seconds of the reconcile for a change; 0 for none."""
        now = self._clock.monotonic()
        with self._lock:
            tokens, since = self._tokens.get(key, (self._burst, now))
            tokens = min(self._burst, tokens + (now - since) * self._refill) - 1.0
            self._sources.setdefault(key, deque(maxlen=self._REMEMBERED)).append(source)
            if tokens >= 0:
                self._tokens[key] = (tokens, now)
                return 0.0
            # Debt does not accumulate: one reconcile covers all changes before it.
            tokens = max(tokens, -1.0)
            self._tokens[key] = (tokens, now)
            self._flooded.add(key)
            return -tokens / self._refill

    def flooded_by(self, key: Key) -> str:
        """Return the source of the most changes while there are too many, else an empty string."""
        with self._lock:
            if self._calm_seconds(key) <= 0:
                self._flooded.discard(key)
                return ""
            return Counter(self._sources[key]).most_common(1)[0][0]

    def seconds_to_calm(self, key: Key) -> float | None:
        """Return the seconds until a flood is over without further changes; None without a flood.

        The key must be reconciled again then to take back the report of the flood.
        """
        with self._lock:
            seconds = self._calm_seconds(key)
            return seconds if seconds > 0 else None

    def _calm_seconds(self, key: Key) -> float:
        """Return the seconds until half of the burst is available again."""
        if key not in self._flooded:
            return 0.0
        tokens, since = self._tokens[key]
        missing = self._burst / 2 - tokens
        return since + missing / self._refill - self._clock.monotonic()

    def forget(self, key: Key) -> None:
        with self._lock:
            self._tokens.pop(key, None)
            self._sources.pop(key, None)
            self._flooded.discard(key)
