"""Watch cache: the objects of a kind, kept up to date by lists and watches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from threading import Condition, RLock, Thread
from typing import Final, Generic, NamedTuple, TypeVar

from kanister_py.core.errors import (
    ApiError,
    Expired,
    Forbidden,
    KanisterError,
    NotFound,
    TransientError,
)
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.ports.clock import Clock, pause
from kanister_py.ports.cluster import Cluster, EventType, KubeObject, ObjectList, Watch

_LOG: Final = logging.getLogger(__name__)
_PAGE: Final = 250
_WATCH_SECONDS: Final = 300.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0

T = TypeVar("T")


class ObjectKey(NamedTuple):
    """Which object of a kind."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: KubeObject) -> ObjectKey:
    """Say which object this is."""
    metadata = obj["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


class _Change(NamedTuple, Generic[T]):
    """What an object was, and what it is now."""

    key: ObjectKey
    old: T | None
    new: T | None


class WatchCache(Generic[T]):
    """What is kept of each object of one kind. What is not worth keeping whole is kept slim.

    An object of which `keep` gives None is as good as not there.
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
        on_error: Callable[[KanisterError], None] | None = None,
        on_listed: Callable[[str], None] = lambda _version: None,
        label_selector: str = "",
    ) -> None:
        self.resource = resource
        self._lock = RLock()
        self._kept: dict[ObjectKey, T] = {}
        self._namespaces = tuple(namespaces)
        self._age_of: Callable[[T], datetime] | None = None
        self._turn = RLock()
        self._held: list[_Change[T]] = []
        self._awaited: set[str] = set()
        self._keep = keep
        self._on_change = on_change
        self._on_listed = on_listed
        self._feeds = [
            _Feed(
                cluster,
                clock,
                resource,
                _Selection(each, label_selector),
                self._replace_all,
                self._take,
                on_error,
            )
            for each in namespaces
        ]

    def notify_by_age(self, age_of: Callable[[T], datetime]) -> None:
        """Tell what a list holds from the oldest on; a cluster lists by name. To be called first.

        At the start that goes over all namespaces together: nothing is passed on before each of
        them has answered, be it that it cannot be read.
        """
        self._age_of = age_of
        self._awaited = set(self._namespaces)

    def start(self) -> None:
        """Begin to list and to watch, one thread for each namespace that is named."""
        for feed in self._feeds:
            feed.start()

    def close(self) -> None:
        for feed in self._feeds:
            feed.close()

    @property
    def has_synced(self) -> bool:
        """Whether everything that was there at the start has been seen."""
        return all(feed.has_listed for feed in self._feeds)

    @property
    def trouble(self) -> str:
        """What keeps it from being up to date; empty if nothing does.

        One of several namespaces that was listed once and is refused now does not count: it
        may have been deleted and created again, without the Role that it had.
        """
        troubled = [feed for feed in self._feeds if feed.trouble]
        if len(troubled) < len(self._feeds):
            troubled = [feed for feed in troubled if not (feed.has_listed and feed.is_refused)]
        return next((feed.trouble for feed in troubled), "")

    @property
    def open_watches(self) -> int:
        return sum(feed.is_watching for feed in self._feeds)

    def get(self, key: ObjectKey) -> T | None:
        with self._lock:
            return self._kept.get(key)

    def items(self) -> list[tuple[ObjectKey, T]]:
        with self._lock:
            return list(self._kept.items())

    def __len__(self) -> int:
        with self._lock:
            return len(self._kept)

    def _take(self, kind: EventType, obj: KubeObject) -> None:
        change = self._put(kind, obj)
        if change.old is not None or change.new is not None or kind is EventType.DELETED:
            self._tell([change])

    def _put(self, kind: EventType, obj: KubeObject) -> _Change[T]:
        key = key_of(obj)
        new = None if kind is EventType.DELETED else self._keep(obj)
        with self._lock:
            old = self._kept.pop(key, None)
            if new is not None:
                self._kept[key] = new
        return _Change(key, old, new)

    def _replace_all(self, namespace: str, pages: Iterator[ObjectList]) -> str:
        """Take in a whole list, page by page, and forget what is not in it; say its version."""
        seen: set[ObjectKey] = set()
        listed: list[_Change[T]] = []
        version = ""
        try:
            for page in pages:
                version = page.resource_version
                for obj in page.items:
                    change = self._put(EventType.MODIFIED, obj)
                    if change.old is None and change.new is None:
                        continue
                    seen.add(change.key)
                    if self._age_of is None:
                        self._on_change(*change)
                    else:
                        listed.append(change)
        finally:
            # What was taken in from a list that breaks off is reported, too.
            self._tell(self._by_age(listed))
            self._release(namespace)
        with self._lock:
            gone = [
                key
                for key in self._kept
                if key not in seen and (not namespace or key.namespace == namespace)
            ]
        for key in gone:
            with self._lock:
                old = self._kept.pop(key, None)
            self._tell([_Change(key, old, None)])
        self._on_listed(version)
        return version

    # Telling of it

    def _tell(self, changes: Sequence[_Change[T]]) -> None:
        # Where order counts, nothing new may be reported while the old is still being reported.
        with self._turn if self._age_of is not None else nullcontext():
            if self._awaited:
                self._held += changes
                return
            for each in changes:
                self._on_change(*each)

    def _release(self, namespace: str) -> None:
        """Tell what was held back, if this namespace is the last one that was waited for."""
        with self._turn:
            if namespace not in self._awaited:
                return
            self._awaited.discard(namespace)
            if not self._awaited:
                held, self._held = self._held, []
                self._tell(self._by_age(held))

    def _by_age(self, changes: list[_Change[T]]) -> list[_Change[T]]:
        age_of = self._age_of
        if age_of is None:
            return changes

        def place(change: _Change[T]) -> tuple[bool, datetime | None, ObjectKey]:
            known = change.old if change.new is None else change.new
            # What is gone, and was never reported, has no age; its place does not matter.
            return known is not None, None if known is None else age_of(known), change.key

        return sorted(changes, key=place)


class _Selection(NamedTuple):
    """Which objects of a kind are listed and watched."""

    namespace: str
    label_selector: str = ""


@dataclass(slots=True, eq=False, repr=False)
class _Feed:
    """One list and one watch after the other, until it is closed."""

    _cluster: Cluster
    _clock: Clock
    _resource: GroupVersionResource
    selection: _Selection
    _take_all: Callable[[str, Iterator[ObjectList]], str]
    _take: Callable[[EventType, KubeObject], None]
    _on_error: Callable[[KanisterError], None] | None
    has_listed: bool = False
    is_watching: bool = False
    is_refused: bool = False
    """Whether the last answer was that this may not be read, or is not there."""
    trouble: str = ""
    _changed: Condition = field(default_factory=Condition)
    _watch: Watch | None = None
    _is_closed: bool = False
    _failures: int = 0
    _version: str = ""

    def start(self) -> None:
        Thread(target=self._follow, name=f"watch {self._resource.resource}", daemon=True).start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            watch = self._watch
            self._changed.notify_all()
        if watch is not None:
            watch.close()

    def _follow(self) -> None:
        while not self._is_closed:
            try:
                if not self._version:
                    # A list that breaks off is made again, not followed from the one before.
                    self._version = ""
                    self._version = self._take_all(self.selection.namespace, self._pages())
                    self.has_listed = True
                    self._failures = 0
                self._follow_watch()
            except Expired:
                self._version = ""
            except KanisterError as error:
                # What has been reported until here need not be reported again.
                self._pause(error)
            except Exception:  # noqa: BLE001 # see below
                # A mistake in what hears of a change must not end the watch.
                self.trouble = f"A watch on {self._resource.group_resource} fell over"
                _LOG.exception("%s", self.trouble)
                self._version = ""
                self._pause(None)

    def _pages(self) -> Iterator[ObjectList]:
        token = ""
        while True:
            page = self._cluster.list(
                self._resource,
                namespace=self.selection.namespace,
                label_selector=self.selection.label_selector,
                limit=_PAGE,
                continue_token=token,
            )
            yield page
            token = page.continue_token
            if not token:
                return

    def _follow_watch(self) -> None:
        watch = self._cluster.watch(
            self._resource,
            namespace=self.selection.namespace,
            label_selector=self.selection.label_selector,
            resource_version=self._version,
            timeout_seconds=_WATCH_SECONDS,
            bookmarks=True,
        )
        with self._changed:
            self._watch = watch
            is_over = self._is_closed
        with watch:
            if is_over:
                return
            self.is_watching = True
            self.trouble = ""
            opened_at = self._clock.monotonic()
            try:
                for event in watch:
                    self._failures = 0
                    if event.type is not EventType.BOOKMARK:
                        self._take(event.type, event.object)
                    version = event.object["metadata"].get("resourceVersion")
                    self._version = version or self._version
            finally:
                self.is_watching = False
                if self._clock.monotonic() - opened_at >= _LONGEST_PAUSE_SECONDS:
                    # It was well, though perhaps nothing happened.
                    self._failures = 0

    def _pause(self, error: KanisterError | None) -> None:
        self._failures += 1
        self.is_refused = isinstance(error, Forbidden | NotFound)
        if error is not None:
            where = f" in {self.selection.namespace}" if self.selection.namespace else ""
            message = f"Cannot watch {self._resource.group_resource}{where}: {error.message}"
            if message != self.trouble and not self._is_closed:
                level = logging.INFO if self._failures < 3 else logging.WARNING
                if not isinstance(error, TransientError):
                    level = logging.ERROR
                _LOG.log(level, "%s", message)
            self.trouble = message
            if self._on_error is not None:
                self._on_error(error)
        seconds = min(
            _FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 8), _LONGEST_PAUSE_SECONDS
        )
        if isinstance(error, ApiError) and not isinstance(error, TransientError):
            # A right has to be granted first.
            seconds = max(seconds, 5.0)
        pause(self._clock, self._changed, seconds, lambda: self._is_closed)
