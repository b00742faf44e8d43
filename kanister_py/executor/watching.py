"""Shared watches: one watch wakes all waiters for objects of a kind in a namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Lock, Semaphore, local
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from kanister_py.core.errors import TransientError
from kanister_py.core.kube.parts import name_of
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.retries import NO_LIMIT, RetryRule
from kanister_py.executor.reflector import Failure, Pacing, Reflector, Scope
from kanister_py.executor.refused_reads import RefusedReads
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, EventType, KubeObject, ObjectList

Wake: TypeAlias = Callable[[], None]

T = TypeVar("T")

_PACING: Final = Pacing(page_size=1, watch_seconds=None, retry=RetryRule(NO_LIMIT, 1.0, 1.0, 1.0))
_MAX_CONCURRENT_READS: Final = 16


class Read(NamedTuple):
    """A read of one object or, without a name, of all objects in a namespace."""

    resource: GroupVersionResource
    namespace: str
    name: str = ""


class SharedWatches:
    """Wake-ups for threads that wait for objects, with one watch per kind and namespace.

    A wake-up means that the object may have changed. There may be too many, but none is lost.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = Lock()
        self._watches: dict[Scope, _SharedWatch] = {}
        self._slots = Semaphore(_MAX_CONCURRENT_READS)
        self.refused = RefusedReads(clock)
        """Refusals of optional reads, for the account of these watches."""

    def read_in_slot(self, read: Callable[[], T]) -> T:
        """Return `read()`, and limit the number of concurrent reads.

        One change may wake a thousand waiters. If all of them sent requests at the same moment,
        the API server would answer none in time, and the renewal of the Lease would fail.
        """
        with self._slots:
            return read()

    def subscribe(self, reads: Iterable[Read], wake: Wake) -> Subscription:
        """Call `wake` for every later change of the objects that were read.

        Subscribe first and read the objects afterwards: earlier changes cause no call.
        """
        joined: list[tuple[_SharedWatch, str]] = []
        with self._lock:
            for read in reads:
                scope = Scope(read.resource, read.namespace)
                watch = self._watches.get(scope)
                if watch is None or watch.is_closed:
                    watch = _SharedWatch(self._cluster, self._clock, self.refused, scope)
                    self._watches[scope] = watch
                watch.add(read.name, wake)
                joined.append((watch, read.name))
        for watch, _ in joined:
            watch.start()
        return Subscription(self, joined, wake)

    def _leave(self, joined: Iterable[tuple[_SharedWatch, str]], wake: Wake) -> None:
        unused = []
        with self._lock:
            for watch, name in joined:
                if watch.remove(name, wake):
                    unused.append(watch)
                    self._watches.pop(watch.scope, None)
        for watch in unused:
            watch.close()

    @property
    def open_watches(self) -> int:
        """Return the number of watches with a waiter."""
        with self._lock:
            return len(self._watches)


class Subscription:
    """Registration of one waiter for changes of some objects, until it is closed."""

    def __init__(
        self, watches: SharedWatches, joined: list[tuple[_SharedWatch, str]], wake: Wake
    ) -> None:
        self._watches = watches
        self._joined = joined
        self._wake = wake

    @property
    def is_blind(self) -> bool:
        """Whether the cluster refuses one of the watches, so that the waiter has to poll."""
        return any(watch.is_blind for watch, _ in self._joined)

    def close(self) -> None:
        self._watches._leave(self._joined, self._wake)  # noqa: SLF001 # two halves of one class
        self._joined = []


class _SharedWatch:
    """Watch of a kind in a namespace, and the waiters for its events by name of the object.

    It stores no objects: waiters read from the cluster. The list before the watch is limited to
    one object, because only its resourceVersion is needed.
    """

    def __init__(self, cluster: Cluster, clock: Clock, refused: RefusedReads, scope: Scope) -> None:
        self.scope = scope
        self.is_closed = False
        self.is_blind = False
        """Whether the watch is refused, so that waiters have to poll."""
        self._refused = refused
        self._lock = Lock()
        self._waiters: dict[str, list[Wake]] = {}
        self._reflector = Reflector(cluster, clock, scope, self, _PACING)

    def add(self, name: str, wake: Wake) -> None:
        with self._lock:
            self._waiters.setdefault(name, []).append(wake)

    def remove(self, name: str, wake: Wake) -> bool:
        """Remove a waiter. Returns whether no waiter is left."""
        with self._lock:
            waiting = self._waiters.get(name, [])
            if wake in waiting:
                waiting.remove(wake)
            if not waiting:
                self._waiters.pop(name, None)
            return not self._waiters

    def start(self) -> None:
        self._reflector.start()

    def close(self) -> None:
        self.is_closed = True
        self._reflector.close()

    # Receiver of the reflector

    def on_list(self, scope: Scope, pages: Iterator[ObjectList]) -> str:
        page = self._refused.read(lambda: next(pages), scope.resource, scope.namespace)
        # Changes up to this version cause no event, so the waiters have to read again.
        self._wake_all()
        return page.resource_version

    def on_event(self, kind: EventType, obj: KubeObject) -> None:
        del kind
        name = name_of(obj)
        with self._lock:
            waiting = [*self._waiters.get(name, ()), *(self._waiters.get("", ()) if name else ())]
        for wake in waiting:
            wake()

    def on_failure(self, failure: Failure) -> None:
        if not isinstance(failure.error, TransientError):
            # The account may be allowed to read even if it is not allowed to watch.
            self.is_blind = True
            self._reflector.close()
        self._wake_all()

    def _wake_all(self) -> None:
        with self._lock:
            waiting = [wake for waiters in self._waiters.values() for wake in waiters]
        for wake in waiting:
            wake()


class TracedCluster:
    """Cluster that records the reads made through it while `trace` runs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._local = local()

    def as_cluster(self) -> Cluster:
        """Return this object typed as a cluster: all other calls are forwarded."""
        return cast("Cluster", self)

    def trace(self, act: Callable[[], Any]) -> tuple[Any, frozenset[Read]]:
        """Call `act` in this thread; return its result and the reads it made."""
        outer = getattr(self._local, "reads", None)
        reads: set[Read] = set()
        self._local.reads = reads
        try:
            result = act()
        finally:
            self._local.reads = outer
        return result, frozenset(reads)

    def get(self, resource: GroupVersionResource, name: str, **options: Any) -> KubeObject:
        self._record(Read(resource, options.get("namespace", ""), name))
        return self._cluster.get(resource, name, **options)

    def list(self, resource: GroupVersionResource, **options: Any) -> ObjectList:
        self._record(Read(resource, options.get("namespace", "")))
        return self._cluster.list(resource, **options)

    def _record(self, read: Read) -> None:
        reads = getattr(self._local, "reads", None)
        if reads is not None:
            reads.add(read)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)
