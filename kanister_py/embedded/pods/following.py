"""Follower: the objects of one kind, listed and watched without gaps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from kanister_py.core.errors import ApiError, Expired
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, EventType, KubeObject, Watch

_RETRY_SECONDS: Final = 1.0


class Follower:
    """Watch over every object as it is now, and over those that are gone, from one thread.

    Where the watch breaks off, it lists again: what went in between is seen as
    gone all the same. What `seen` and `gone` raise for the cluster is tried
    again with the next list.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: GroupVersionResource,
        seen: Callable[[KubeObject], None],
        gone: Callable[[KubeObject], None],
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._resource = resource
        self._seen = seen
        self._gone = gone
        self._clock = clock
        self._known: dict[str, KubeObject] = {}
        self._changed = threading.Condition()
        self._watch: Watch | None = None
        self._is_closed = False
        self._thread = threading.Thread(
            target=self._loop, name=f"follow-{resource.resource}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            watch = self._watch
        if watch is not None:
            watch.close()
        if self._thread.is_alive():
            self._thread.join()

    def _loop(self) -> None:
        while not self._is_closed:
            try:
                self._follow()
            except Expired:
                continue
            except ApiError:
                with self._changed:
                    if not self._is_closed:
                        self._clock.wait(self._changed, _RETRY_SECONDS)

    def _follow(self) -> None:
        listed = self._cluster.list(self._resource)
        present = {obj["metadata"]["uid"] for obj in listed}
        for uid, obj in list(self._known.items()):
            if uid not in present:
                self._forget(obj)
        for obj in listed:
            self._take(obj)
        watch = self._cluster.watch(self._resource, resource_version=listed.resource_version)
        with self._changed:
            self._watch = watch
            if self._is_closed:
                watch.close()
                return
        with watch:
            for event in watch:
                if event.type is EventType.DELETED:
                    self._forget(event.object)
                elif event.type is not EventType.BOOKMARK:
                    self._take(event.object)

    def _take(self, obj: KubeObject) -> None:
        metadata = obj["metadata"]
        self._known[metadata["uid"]] = {**obj, "spec": {}, "status": {}}
        self._seen(obj)

    def _forget(self, obj: KubeObject) -> None:
        self._known.pop(obj["metadata"]["uid"], None)
        self._gone(obj)
