"""Reads of Namespaces from a watch cache, because most ActionSets act on a Namespace."""

from __future__ import annotations

from threading import Lock
from typing import Any, cast

from kanister_py.core.errors import Forbidden, KanisterError
from kanister_py.core.kube.resources import NAMESPACES, GroupVersionResource
from kanister_py.executor.watch_cache import ObjectKey, WatchCache
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject


class WatchedNamespaces:
    """Cluster that reads Namespaces from a watch cache, which is started by the first read.

    A Namespace that is not in the cache is read from the API server. Without the right to list
    Namespaces, all of them are. The cache may be slightly outdated, which is harmless: unlike
    Blueprints, Namespaces are not edited right before a run. Returned objects are shared and
    must not be modified.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = Lock()
        self._store: WatchCache[KubeObject] | None = None
        self._may_watch = True

    def as_cluster(self) -> Cluster:
        """Return this object typed as a cluster: all other calls are forwarded."""
        return cast("Cluster", self)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._cluster, name)
        self.__dict__[name] = attribute
        return attribute

    def get(self, resource: GroupVersionResource, name: str, **options: Any) -> KubeObject:
        if resource == NAMESPACES:
            store = self._store if self._store is not None else self._begin()
            namespace = store.get(ObjectKey("", name)) if store is not None else None
            if namespace is not None:
                return namespace
        return self._cluster.get(resource, name, **options)

    def _begin(self) -> WatchCache[KubeObject] | None:
        with self._lock:
            if self._store is None and self._may_watch:
                try:
                    self._cluster.list(NAMESPACES, limit=1)
                except Forbidden:
                    self._may_watch = False
                except KanisterError:
                    return None
                else:
                    store: WatchCache[KubeObject] = WatchCache(
                        cluster=self._cluster,
                        clock=self._clock,
                        resource=NAMESPACES,
                        keep=lambda obj: obj,
                        on_change=lambda _key, _old, _new: None,
                    )
                    store.start()
                    self._store = store
            return self._store

    def close(self) -> None:
        with self._lock:
            self._may_watch = False
            if self._store is not None:
                self._store.close()
