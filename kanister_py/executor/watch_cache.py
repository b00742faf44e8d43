"""Watch cache: the objects of a kind, kept up to date by lists and watches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime
from threading import RLock
from typing import Final, Generic, NamedTuple, TypeVar

from kanister_py.core.errors import KanisterError, TransientError
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.executor.reflector import STANDARD_PACING, Failure, Pacing, Reflector, Scope
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, EventType, KubeObject, ObjectList

_LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")


class ObjectKey(NamedTuple):
    """Namespace and name of an object; the namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: KubeObject) -> ObjectKey:
    """Return the key of an object."""
    metadata = obj["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


class _Change(NamedTuple, Generic[T]):
    """The entries of an object before and after a change; None if there was or is none."""

    key: ObjectKey
    old: T | None
    new: T | None


class WatchCache(Generic[T]):
    """Entries for the objects of one kind, in all or in some namespaces.

    `keep` builds the entry for an object: the object itself, or the part that is needed. Objects
    for which it returns None are treated as if they did not exist. `on_change` is called with the
    key and the entries before and after each change. Thread-safe.
    """

    def __init__(  # noqa: PLR0913 # all but the first five have a name and a default
        self,
        cluster: Cluster,
        clock: Clock,
        resource: GroupVersionResource,
        keep: Callable[[KubeObject], T | None],
        on_change: Callable[[ObjectKey, T | None, T | None], None],
        *,
        namespaces: Sequence[str] = ("",),
        on_error: Callable[[KanisterError], None] = lambda _error: None,
        on_listed: Callable[[str], None] = lambda _version: None,
        label_selector: str = "",
        pacing: Pacing = STANDARD_PACING,
    ) -> None:
        self.resource = resource
        self._lock = RLock()
        self._entries: dict[ObjectKey, T] = {}
        self._namespaces = tuple(namespaces)
        self._age_of: Callable[[T], datetime] | None = None
        self._notifying = RLock()
        self._held_back: list[_Change[T]] = []
        self._unlisted: set[str] = set()
        """Namespaces whose first list has not ended. Notifications wait until this is empty."""
        self._keep = keep
        self._on_change = on_change
        self._on_error = on_error
        self._on_listed = on_listed
        self.reflectors = [
            Reflector(cluster, clock, Scope(resource, namespace, label_selector), self, pacing)
            for namespace in namespaces
        ]

    def notify_by_age(self, age_of: Callable[[T], datetime]) -> None:
        """Report listed objects in order of age, oldest first. Call this before `start`.

        The first lists of all namespaces are sorted together: notifications begin when every
        namespace has been listed, or its list has failed.
        """
        self._age_of = age_of
        self._unlisted = set(self._namespaces)

    def start(self) -> None:
        """Start to list and to watch, in one thread per namespace."""
        for reflector in self.reflectors:
            reflector.start()

    def close(self, *, waits: bool = False) -> None:
        """Stop watching. With `waits`, `on_change` is not called after this returns."""
        for reflector in self.reflectors:
            reflector.close()
        if waits:
            for reflector in self.reflectors:
                reflector.join()

    @property
    def has_synced(self) -> bool:
        """Whether all objects that existed at the start are in the cache."""
        return all(reflector.has_listed for reflector in self.reflectors)

    @property
    def trouble(self) -> str:
        """Why the cache may be out of date; empty if it is not.

        A namespace that was listed before but is now forbidden is ignored, unless all namespaces
        fail. It may have been deleted and created again without its Role.
        """
        failing = [reflector for reflector in self.reflectors if reflector.problem]
        if len(failing) < len(self.reflectors):
            failing = [
                reflector
                for reflector in failing
                if not (reflector.has_listed and reflector.is_refused)
            ]
        return next((reflector.problem for reflector in failing), "")

    @property
    def open_watches(self) -> int:
        return sum(reflector.is_watching for reflector in self.reflectors)

    def get(self, key: ObjectKey) -> T | None:
        with self._lock:
            return self._entries.get(key)

    def items(self) -> list[tuple[ObjectKey, T]]:
        with self._lock:
            return list(self._entries.items())

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    # Receiver of the reflectors

    def on_event(self, kind: EventType, obj: KubeObject) -> None:
        change = self._store(kind, obj)
        if change.old is not None or change.new is not None or kind is EventType.DELETED:
            self._notify([change])

    def on_list(self, scope: Scope, pages: Iterator[ObjectList]) -> str:
        """Store a list page by page, and remove the entries of objects that it does not contain."""
        present: set[ObjectKey] = set()
        listed: list[_Change[T]] = []
        version = ""
        try:
            for page in pages:
                version = page.resource_version
                for obj in page.items:
                    change = self._store(EventType.MODIFIED, obj)
                    if change.old is None and change.new is None:
                        continue
                    present.add(change.key)
                    if self._age_of is None:
                        self._on_change(*change)
                    else:
                        listed.append(change)
        finally:
            # If the list fails halfway, the objects stored so far are reported as well.
            self._notify(self._by_age(listed))
            self._end_first_list(scope.namespace)
        with self._lock:
            gone = [
                key
                for key in self._entries
                if key not in present and (not scope.namespace or key.namespace == scope.namespace)
            ]
        for key in gone:
            with self._lock:
                old = self._entries.pop(key, None)
            self._notify([_Change(key, old, None)])
        self._on_listed(version)
        return version

    def on_failure(self, failure: Failure) -> None:
        if not failure.is_repeated:
            level = logging.INFO if failure.attempt < 3 else logging.WARNING
            if not isinstance(failure.error, TransientError):
                level = logging.ERROR
            _LOG.log(level, "%s", failure.message)
        self._on_error(failure.error)

    def _store(self, kind: EventType, obj: KubeObject) -> _Change[T]:
        key = key_of(obj)
        new = None if kind is EventType.DELETED else self._keep(obj)
        with self._lock:
            old = self._entries.pop(key, None)
            if new is not None:
                self._entries[key] = new
        return _Change(key, old, new)

    # Notifications

    def _notify(self, changes: Sequence[_Change[T]]) -> None:
        # If objects are reported by age, a change must wait until all earlier ones are reported.
        with self._notifying if self._age_of is not None else nullcontext():
            if self._unlisted:
                self._held_back += changes
                return
            for change in changes:
                self._on_change(*change)

    def _end_first_list(self, namespace: str) -> None:
        """Report the changes that were held back, if no other first list is missing."""
        with self._notifying:
            if namespace not in self._unlisted:
                return
            self._unlisted.discard(namespace)
            if not self._unlisted:
                held_back, self._held_back = self._held_back, []
                self._notify(self._by_age(held_back))

    def _by_age(self, changes: list[_Change[T]]) -> list[_Change[T]]:
        age_of = self._age_of
        if age_of is None:
            return changes

        def order(change: _Change[T]) -> tuple[bool, datetime | None, ObjectKey]:
            entry = change.old if change.new is None else change.new
            # An object that was deleted before it was reported has no age; its place is arbitrary.
            return entry is not None, None if entry is None else age_of(entry), change.key

        return sorted(changes, key=order)
