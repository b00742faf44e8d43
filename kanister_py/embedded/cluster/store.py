"""Object store of the embedded cluster: tables, history and watches."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Condition
from typing import NamedTuple

from kanister_py.core.errors import Expired
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.selectors import Predicate
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import EventType, KubeObject, Stream, WatchEvent

TableKey = tuple[str, str]
"""Group and plural: versions of one kind share their objects."""


def place_of(obj: KubeObject) -> tuple[str, str]:
    """Return the key of an object in its table: namespace and name."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class Change(NamedTuple):
    """One change of an object. `before` is None for new objects."""

    version: int
    type: EventType
    object: KubeObject
    before: KubeObject | None


class Table:
    """Objects of one kind, by namespace and name.

    Stored objects are never changed in place, so they can be shared.
    """

    def __init__(self, compacted: int) -> None:
        self.rows: dict[str, dict[str, KubeObject]] = {}
        self.history: deque[Change] = deque()
        self.compacted = compacted
        self.watchers: set[MemoryWatch] = set()
        self.watchers_by_name: dict[str, set[MemoryWatch]] = {}

    def get(self, namespace: str, name: str) -> KubeObject | None:
        return self.rows.get(namespace, {}).get(name)

    def scan(self, namespace: str) -> Iterator[KubeObject]:
        if namespace:
            yield from self.rows.get(namespace, {}).values()
        else:
            for rows in self.rows.values():
                yield from rows.values()

    def listeners(self, name: str) -> Iterator[MemoryWatch]:
        """Return the watches that can match an object of this name."""
        named = self.watchers_by_name.get(name)
        return itertools.chain(self.watchers, named) if named else iter(self.watchers)


class Store:
    """All tables, with one counter of resource versions. The caller holds the cluster's lock."""

    def __init__(self, history_limit: int) -> None:
        self.version = 1
        self.tables: dict[TableKey, Table] = {}
        self._history_limit = history_limit
        self._compacted = 0

    def table(self, key: TableKey) -> Table:
        table = self.tables.get(key)
        if table is None:
            table = self.tables[key] = Table(self._compacted)
        return table

    def put(self, key: TableKey, obj: KubeObject, before: KubeObject | None) -> KubeObject:
        """Store an object, which must not be changed afterwards, with a new resource version."""
        metadata = obj["metadata"]
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        table = self.table(key)
        table.rows.setdefault(metadata.get("namespace", ""), {})[metadata["name"]] = obj
        type_ = EventType.ADDED if before is None else EventType.MODIFIED
        self._notify(table, Change(self.version, type_, obj, before))
        return obj

    def adopt(self, key: TableKey, obj: KubeObject) -> None:
        """Store an object with its own resource version, without events."""
        metadata = obj["metadata"]
        rows = self.table(key).rows.setdefault(metadata.get("namespace", ""), {})
        rows[metadata["name"]] = obj

    def remove(self, key: TableKey, obj: KubeObject, before: KubeObject) -> KubeObject:
        """Remove an object. `obj` is its last state."""
        metadata = obj["metadata"]
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        table = self.table(key)
        namespace = metadata.get("namespace", "")
        rows = table.rows[namespace]
        del rows[metadata["name"]]
        if not rows:
            del table.rows[namespace]
        self._notify(table, Change(self.version, EventType.DELETED, obj, before))
        return obj

    def _notify(self, table: Table, change: Change) -> None:
        history = table.history
        history.append(change)
        while len(history) > self._history_limit:
            table.compacted = history.popleft().version
        for watch in table.listeners(change.object["metadata"]["name"]):
            watch.offer(change)

    def compact(self) -> None:
        """Discard the history: watches from older versions end with `Expired`."""
        self._compacted = self.version
        for table in self.tables.values():
            table.history.clear()
            table.compacted = self.version

    def changes_since(self, table: Table, version: int) -> list[Change]:
        if version < table.compacted:
            raise Expired(f"too old resource version: {version} ({table.compacted})")
        changes: list[Change] = []
        for change in reversed(table.history):
            if change.version <= version:
                break
            changes.append(change)
        changes.reverse()
        return changes

    def add_watch(self, table: Table, watch: MemoryWatch) -> None:
        if watch.name:
            table.watchers_by_name.setdefault(watch.name, set()).add(watch)
        else:
            table.watchers.add(watch)

    def remove_watch(self, table: Table, watch: MemoryWatch) -> None:
        table.watchers.discard(watch)
        named = table.watchers_by_name.get(watch.name)
        if named is not None:
            named.discard(watch)
            if not named:
                del table.watchers_by_name[watch.name]


class MemoryWatch(Stream):
    """One watch. Its reader blocks until the next event."""

    def __init__(
        self,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        passes: Predicate | None,
        api_version: str,
        kind: str,
        timeout_seconds: float | None,
        bookmarks: bool,
    ) -> None:
        self.name = name
        self._clock = clock
        self._namespace = namespace
        self._passes = passes
        self._api_version = api_version
        self._kind = kind
        self._deadline = None if timeout_seconds is None else clock.monotonic() + timeout_seconds
        self._bookmarks = bookmarks
        self._pending: deque[tuple[EventType, KubeObject]] = deque()
        self._condition = Condition()
        self._is_closed = False
        self._seen = ""
        self._on_close: list[Callable[[], None]] = []

    def begin(self, version: int, objects: Sequence[KubeObject]) -> None:
        """Start with events for existing objects."""
        self._seen = str(version)
        self._pending.extend((EventType.ADDED, obj) for obj in objects)

    def when_closed(self, action: Callable[[], None]) -> None:
        self._on_close.append(action)

    def offer(self, change: Change) -> None:
        """Add a change. May be called from any thread."""
        namespace = change.object["metadata"].get("namespace", "")
        if self._namespace and namespace != self._namespace:
            return
        type_ = self._seen_as(change)
        with self._condition:
            self._seen = str(change.version)
            if type_ is None:
                return
            self._pending.append((type_, change.object))
            if len(self._pending) == 1:
                self._condition.notify_all()

    def _seen_as(self, change: Change) -> EventType | None:
        passes = self._passes
        if passes is None:
            return change.type
        was = change.before is not None and passes(change.before)
        if change.type is EventType.DELETED:
            return EventType.DELETED if was else None
        if passes(change.object):
            return EventType.MODIFIED if was else EventType.ADDED
        return EventType.DELETED if was else None

    def __iter__(self) -> MemoryWatch:
        return self

    def __next__(self) -> WatchEvent:
        event = self._next_event()
        if event is None:
            # Close without holding this lock: writers take the cluster's lock first, then this one.
            self.close()
            raise StopIteration
        type_, obj = event
        copied = copy_json(obj)
        copied["apiVersion"] = self._api_version
        return WatchEvent(type_, copied)

    def _next_event(self) -> tuple[EventType, KubeObject] | None:
        with self._condition:
            while not self._is_closed:
                if self._pending:
                    return self._pending.popleft()
                left = None if self._deadline is None else self._deadline - self._clock.monotonic()
                if left is not None and left <= 0:
                    if not self._bookmarks:
                        return None
                    self._bookmarks = False
                    return EventType.BOOKMARK, self._bookmark()
                self._clock.wait(self._condition, left)
            return None

    def _bookmark(self) -> KubeObject:
        return {
            "apiVersion": self._api_version,
            "kind": self._kind,
            "metadata": {"resourceVersion": self._seen},
        }

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
            # The woken reader closes the watch, too, but each action must run once.
            actions, self._on_close = self._on_close, []
        for action in actions:
            action()
