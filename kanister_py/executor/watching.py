"""Shared watches: one watch wakes all that wait for objects of a kind and namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Condition, Lock, Semaphore, Thread, local
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from kanister_py.core.errors import Expired, KanisterError, TransientError
from kanister_py.core.kube.parts import name_of
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.executor.refused_reads import RefusedReads
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject, ObjectList, Watch

Wake: TypeAlias = Callable[[], None]

T = TypeVar("T")

_RECONNECT_SECONDS = 1.0
_MOST_LOOKS: Final = 16


class Read(NamedTuple):
    """A read of one object, or, without a name, of all in a namespace."""

    resource: GroupVersionResource
    namespace: str
    name: str = ""


class SharedWatches:
    """Wake-ups for those that wait for an object, with one watch per kind and namespace.

    A wake-up means: look again. It may come for nothing, but none is lost.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = Lock()
        self._feeds: dict[tuple[GroupVersionResource, str], _Feed] = {}
        self._looks = Semaphore(_MOST_LOOKS)
        self.refused = RefusedReads(clock)
        """Refusals of optional reads, for the account of these watches."""

    def look(self, read: Callable[[], T]) -> T:
        """Read what was waited for, among no more than a few at once.

        One change may wake a thousand; if all of them asked the cluster at the same
        moment, none would be answered in time, and the lease would be lost over it.
        """
        with self._looks:
            return read()

    def subscribe(self, reads: Iterable[Read], wake: Wake) -> Subscription:
        """Have `wake` called for every change of what was read, from now on.

        Changes before this call are no news: subscribe first, then look.
        """
        joined: list[tuple[_Feed, str]] = []
        with self._lock:
            for read in reads:
                key = (read.resource, read.namespace)
                feed = self._feeds.get(key)
                if feed is None or feed.is_closed:
                    feed = _Feed(self._cluster, self._clock, self.refused, *key)
                    self._feeds[key] = feed
                feed.add(read.name, wake)
                joined.append((feed, read.name))
        for feed, _ in joined:
            feed.start()
        return Subscription(self, joined, wake)

    def _leave(self, joined: Iterable[tuple[_Feed, str]], wake: Wake) -> None:
        unwanted = []
        with self._lock:
            for feed, name in joined:
                if feed.remove(name, wake):
                    unwanted.append(feed)
                    self._feeds.pop((feed.resource, feed.namespace), None)
        for feed in unwanted:
            feed.close()

    @property
    def open_watches(self) -> int:
        """How many watches are kept open."""
        with self._lock:
            return len(self._feeds)


class Subscription:
    """One waiter's interest in some objects, until it is closed."""

    def __init__(self, watches: SharedWatches, joined: list[tuple[_Feed, str]], wake: Wake) -> None:
        self._watches = watches
        self._joined = joined
        self._wake = wake

    @property
    def is_blind(self) -> bool:
        """Whether nothing will ever wake this waiter: the cluster allows no such watch."""
        return any(feed.is_blind for feed, _ in self._joined)

    def close(self) -> None:
        self._watches._leave(self._joined, self._wake)  # noqa: SLF001 # two halves of one thing
        self._joined = []


class _Feed:
    """One watch, and the waiters for its events, by name of the object."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        refused: RefusedReads,
        resource: GroupVersionResource,
        namespace: str,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.is_closed = False
        self.is_blind = False
        self._cluster = cluster
        self._clock = clock
        self._refused = refused
        self._lock = Lock()
        self._pause = Condition()
        self._waiters: dict[str, list[Wake]] = {}
        self._watch: Watch | None = None
        self._is_started = False

    def add(self, name: str, wake: Wake) -> None:
        with self._lock:
            self._waiters.setdefault(name, []).append(wake)

    def remove(self, name: str, wake: Wake) -> bool:
        """Forget a waiter, and say whether it was the last."""
        with self._lock:
            waiting = self._waiters.get(name, [])
            if wake in waiting:
                waiting.remove(wake)
            if not waiting:
                self._waiters.pop(name, None)
            return not self._waiters

    def start(self) -> None:
        with self._lock:
            if self._is_started:
                return
            self._is_started = True
        Thread(target=self._follow, name="watch", daemon=True).start()

    def close(self) -> None:
        with self._lock:
            self.is_closed = True
            watch = self._watch
        if watch is not None:
            watch.close()
        with self._pause:
            self._pause.notify_all()

    def _follow(self) -> None:
        while not self.is_closed:
            try:
                self._follow_once()
            except Expired:
                continue
            except TransientError:
                self._wake_all()
                with self._pause:
                    if not self.is_closed:
                        self._clock.wait(self._pause, _RECONNECT_SECONDS)
            except KanisterError:
                # Without the right to watch one may still look: the waiters ask by themselves then.
                self.is_blind = True
                self._wake_all()
                return

    def _follow_once(self) -> None:
        listed = self._refused.read(
            lambda: self._cluster.list(self.resource, namespace=self.namespace, limit=1),
            self.resource,
            self.namespace,
        )
        watch = self._cluster.watch(
            self.resource, namespace=self.namespace, resource_version=listed.resource_version
        )
        with self._lock:
            self._watch = watch
            is_closed = self.is_closed
        with watch:
            if is_closed:
                return
            # What happened before the watch began is seen by a look from now on.
            self._wake_all()
            for event in watch:
                self._wake(name_of(event.object))

    def _wake(self, name: str) -> None:
        with self._lock:
            waiting = [*self._waiters.get(name, ()), *(self._waiters.get("", ()) if name else ())]
        for wake in waiting:
            wake()

    def _wake_all(self) -> None:
        with self._lock:
            waiting = [wake for each in self._waiters.values() for wake in each]
        for wake in waiting:
            wake()


class TracedCluster:
    """A cluster that remembers, when asked to, what is read through it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._local = local()

    def as_cluster(self) -> Cluster:
        """Give it as what it stands for: every other call goes through unchanged."""
        return cast("Cluster", self)

    def trace(self, ask: Callable[[], Any]) -> tuple[Any, frozenset[Read]]:
        """Ask something, and say what was read for the answer."""
        outer = getattr(self._local, "reads", None)
        reads: set[Read] = set()
        self._local.reads = reads
        try:
            answer = ask()
        finally:
            self._local.reads = outer
        return answer, frozenset(reads)

    def get(self, resource: GroupVersionResource, name: str, **options: Any) -> KubeObject:
        self._note(Read(resource, options.get("namespace", ""), name))
        return self._cluster.get(resource, name, **options)

    def list(self, resource: GroupVersionResource, **options: Any) -> ObjectList:
        self._note(Read(resource, options.get("namespace", "")))
        return self._cluster.list(resource, **options)

    def _note(self, read: Read) -> None:
        reads = getattr(self._local, "reads", None)
        if reads is not None:
            reads.add(read)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)
