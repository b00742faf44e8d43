"""Cache of all objects that the controller uses.

A kind is watched from the first request for one of its objects. Objects that we write
ourselves are cached immediately, before the watch reports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any, Final

from kanister_py.core.errors import KanisterError, NoMatch
from kanister_py.core.kube.parts import labels_of
from kanister_py.core.kube.resources import SECRETS, GroupVersionResource
from kanister_py.executor.watch_cache import ObjectKey, WatchCache, key_of
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject, find

OnChange = Callable[[GroupVersionResource, ObjectKey, KubeObject | None, KubeObject | None], None]

# Read on demand and never watched, so that the controller needs no right to list all Secrets.
_NEVER_WATCHED: Final = frozenset({SECRETS})
_MOST_REMEMBERED: Final = 20_000
_MOST_GONE: Final = 20_000


class ObjectCache:
    """Latest states of objects of any kind, by name. Thread-safe."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        on_change: OnChange,
        on_error: Callable[[KanisterError], None] = lambda _error: None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._on_change = on_change
        self._on_error = on_error
        self._lock = RLock()
        self._stores: dict[GroupVersionResource, WatchCache[KubeObject]] = {}
        self._written: dict[tuple[GroupVersionResource, ObjectKey], KubeObject] = {}
        self._own_versions: dict[tuple[GroupVersionResource, ObjectKey, str], bool] = {}
        """Recent own writes, and whether they were made while the object itself was reconciled.

        A watch reports every state, including intermediate ones.
        """
        self._listed: dict[GroupVersionResource, int] = {}
        """The resourceVersion of the last complete list of each kind."""
        self._gone: dict[str, None] = {}
        """UIDs of the objects that were deleted most recently."""
        self._is_closed = False

    def resource_of(self, api_version: str, kind: str) -> GroupVersionResource:
        return self._cluster.resource_for(api_version, kind).gvr

    def watch(self, resource: GroupVersionResource, namespace: str = "") -> WatchCache[KubeObject]:
        """Return the cache of a kind, and start to watch the kind in all namespaces or in one.

        If the kind is watched already, `namespace` is ignored. The cache of a kind that is never
        watched stays empty.
        """
        with self._lock:
            store = self._stores.get(resource)
            if store is not None:
                return store
            store = self._new_cache(resource, namespace)
            if self._is_closed or resource in _NEVER_WATCHED:
                return store
            self._stores[resource] = store
        store.start()
        return store

    def _new_cache(self, resource: GroupVersionResource, namespace: str) -> WatchCache[KubeObject]:
        def change(key: ObjectKey, old: KubeObject | None, new: KubeObject | None) -> None:
            if new is None and old is not None and _uid(old):
                with self._lock:
                    self._gone[_uid(old)] = None
                    _limit_size(self._gone, _MOST_GONE)
            self._forget_older(resource, key, new)
            self._on_change(resource, key, old, new)
            if new is not None:
                with self._lock:
                    # An own write is no longer needed once the watch has reported it.
                    written = self._written.get((resource, key))
                    if written is not None and _version(new) == _version(written):
                        del self._written[resource, key]
                # Each state is reported once.
                self._own_versions.pop((resource, key, _version(new)), None)

        def listed(version: str) -> None:
            for key, written in self._missing_from_list(resource, version):
                self._on_change(resource, key, written, None)

        return WatchCache(
            self._cluster,
            self._clock,
            resource,
            lambda obj: obj,
            change,
            namespaces=(namespace,),
            on_error=self._on_error,
            on_listed=listed,
        )

    def _missing_from_list(
        self, resource: GroupVersionResource, version: str
    ) -> list[tuple[ObjectKey, KubeObject]]:
        """Remove and return own writes that a later list does not contain: they are deleted."""
        if not version.isdigit():
            return []
        with self._lock:
            self._listed[resource] = int(version)
            missing = [
                (place[1], obj)
                for place, obj in self._written.items()
                if place[0] == resource and self._has_ended(resource, place[1], obj)
            ]
            for key, _obj in missing:
                del self._written[resource, key]
        return missing

    def _has_ended(self, resource: GroupVersionResource, key: ObjectKey, obj: KubeObject) -> bool:
        """Return whether an object that we wrote has been deleted since.

        That is so if its deletion was seen, or if a list at a later version does not contain it.
        """
        if _uid(obj) in self._gone:
            return True
        store = self._stores.get(resource)
        if store is None or store.get(key) is not None or not _version(obj).isdigit():
            return False
        return int(_version(obj)) <= self._listed.get(resource, -1)

    def stop(self, resource: GroupVersionResource) -> None:
        """Stop watching a kind, because it was removed or is no longer needed."""
        with self._lock:
            store = self._stores.pop(resource, None)
            self._listed.pop(resource, None)
            for place in [place for place in self._written if place[0] == resource]:
                del self._written[place]
        if store is not None:
            store.close()

    @property
    def watched(self) -> tuple[GroupVersionResource, ...]:
        with self._lock:
            return tuple(self._stores)

    @property
    def open_watches(self) -> int:
        with self._lock:
            return sum(store.open_watches for store in self._stores.values())

    def trouble_of(self, resource: GroupVersionResource) -> str:
        """Return the reason why a watched kind is not up to date; empty if it is."""
        with self._lock:
            store = self._stores.get(resource)
        return store.trouble if store is not None else ""

    def has_synced(self, resource: GroupVersionResource) -> bool:
        with self._lock:
            store = self._stores.get(resource)
        return store is not None and store.has_synced

    def get(self, resource: GroupVersionResource, key: ObjectKey) -> KubeObject | None:
        """Return an object; read it from the cluster if it is not cached."""
        with self._lock:
            written = self._written.get((resource, key))
        if written is not None:
            return written
        if resource not in _NEVER_WATCHED:
            obj = self.watch(resource).get(key)
            if obj is not None:
                return obj
        return find(self._cluster, resource, key.name, key.namespace)

    def find(self, reference: Mapping[str, Any]) -> KubeObject | None:
        """Return the object of a reference, or None, also if its kind does not exist."""
        try:
            resource = self.resource_of(str(reference["apiVersion"]), str(reference["kind"]))
        except NoMatch:
            return None
        key = ObjectKey(str(reference.get("namespace") or ""), str(reference["name"]))
        return self.get(resource, key)

    def get_cached(self, resource: GroupVersionResource, key: ObjectKey) -> KubeObject | None:
        """Return a cached object of a watched kind, without a request to the cluster."""
        with self._lock:
            written = self._written.get((resource, key))
            store = self._stores.get(resource)
        return written or (store.get(key) if store is not None else None)

    def list(
        self, resource: GroupVersionResource, namespace: str, labels: Mapping[str, str]
    ) -> Sequence[KubeObject]:
        """List the objects with all these labels, sorted by namespace and name.

        Until the watch has synced, they are listed from the cluster. After that, an object that we
        just created is missing until the watch reports it.
        """
        store = self.watch(resource) if resource not in _NEVER_WATCHED else None
        if store is None or not store.has_synced:
            selector = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
            return self._cluster.list(resource, namespace=namespace, label_selector=selector).items
        entries = [
            (key, self.get_cached(resource, key) or obj)
            for key, obj in store.items()
            if not namespace or key.namespace == namespace
        ]
        required = labels.items()
        return [
            obj
            for _key, obj in sorted(entries, key=lambda entry: entry[0])
            if required <= labels_of(obj).items()
        ]

    def list_cached(self, resource: GroupVersionResource) -> Sequence[KubeObject]:
        """List the cached objects of a kind, without a request to the cluster."""
        return [obj for _, obj in self.watch(resource).items()]

    def remember(self, obj: KubeObject, *, in_own_pass: bool = True) -> None:
        """Store an object that was just written.

        `in_own_pass` is set if it was written while this very object was being reconciled, and not
        while another one was.
        """
        resource = self.resource_of(obj["apiVersion"], obj["kind"])
        if resource in _NEVER_WATCHED:
            return
        key = key_of(obj)
        with self._lock:
            store = self._stores.get(resource)
            seen = store.get(key) if store is not None else None
            if seen is not None and _is_at_least(seen, obj):
                return
            own = (resource, key, _version(obj))
            # A write that changes nothing returns the current state, which the reconcile of another
            # object may have written.
            self._own_versions[own] = in_own_pass and self._own_versions.get(own, True)
            _limit_size(self._own_versions, _MOST_REMEMBERED)
            if self._has_ended(resource, key, obj):
                return
            self._written[resource, key] = obj
            _limit_size(self._written, _MOST_REMEMBERED)

    def is_own_write(
        self, resource: GroupVersionResource, obj: KubeObject, *, in_own_pass: bool = False
    ) -> bool:
        """Return whether this state is a recent write of this process.

        With `in_own_pass`, only if it was written while the object itself was being reconciled.
        """
        was_in_own_pass = self._own_versions.get((resource, key_of(obj), _version(obj)))
        return was_in_own_pass is not None and (was_in_own_pass or not in_own_pass)

    def is_write_of_another(self, resource: GroupVersionResource, obj: KubeObject) -> bool:
        """Return whether this state was recently written while another object was reconciled."""
        return self._own_versions.get((resource, key_of(obj), _version(obj))) is False

    def _forget_older(
        self, resource: GroupVersionResource, key: ObjectKey, new: KubeObject | None
    ) -> None:
        """Forget an own write if the watch reports a newer state or the deletion of the object."""
        with self._lock:
            written = self._written.get((resource, key))
            if written is None or (new is not None and _version(new) == _version(written)):
                return
            if new is None or _is_at_least(new, written):
                del self._written[resource, key]

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            stores = list(self._stores.values())
            self._stores.clear()
        for store in stores:
            store.close()


def _uid(obj: KubeObject) -> str:
    uid: str = obj["metadata"].get("uid", "")
    return uid


def _version(obj: KubeObject) -> str:
    version: str = obj["metadata"].get("resourceVersion", "")
    return version


def _is_at_least(seen: KubeObject, written: KubeObject) -> bool:
    """Return whether `seen` is at least as new as `written`, or is another object of that name."""
    if seen["metadata"].get("uid") != written["metadata"].get("uid"):
        return True
    try:
        return int(_version(seen)) >= int(_version(written))
    except ValueError:
        return False


def _limit_size(remembered: dict[Any, Any], most: int) -> None:
    """Remove the oldest entries beyond a number."""
    while len(remembered) > most:
        del remembered[next(iter(remembered))]
