"""Does a controller see everything that is there, and everything that changes?"""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue
from threading import Event
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.cluster_memory.cluster import MemoryCluster
from kanister_py.controller.watch import ObjectKey, Store
from kanister_py.core.objects.resources import CONFIG_MAPS


def config_map(name: str, colour: str = "red", namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"c": colour}}


class Seen:
    def __init__(self, cluster: MemoryCluster, *namespaces: str) -> None:
        self.changes: Queue[tuple[str, str | None, str | None]] = Queue()
        self.store: Store[str] = Store(
            cluster,
            SystemClock(),
            CONFIG_MAPS,
            lambda obj: str(obj["data"]["c"]),
            lambda key, old, new: self.changes.put((key.name, old, new)),
            namespaces=namespaces or ("",),
        )

    def next(self) -> tuple[str, str | None, str | None]:
        return self.changes.get(timeout=20)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def seen(cluster: MemoryCluster) -> Iterator[Seen]:
    made = Seen(cluster)
    yield made
    made.store.close()


def test_what_was_there_and_what_comes_is_seen_once(cluster: MemoryCluster, seen: Seen) -> None:
    cluster.create(config_map("old"))
    seen.store.start()
    assert seen.next() == ("old", None, "red")
    made = cluster.create(config_map("new"))
    assert seen.next() == ("new", None, "red")
    cluster.replace({**made, "data": {"c": "blue"}})
    assert seen.next() == ("new", "red", "blue")
    cluster.delete(CONFIG_MAPS, "old", namespace="default")
    assert seen.next() == ("old", "red", None)
    assert seen.store.items() == [(ObjectKey("default", "new"), "blue")]
    assert seen.store.has_synced


def test_what_was_deleted_while_nobody_watched_is_noticed(cluster: MemoryCluster) -> None:
    gone = _Interrupted(cluster)
    seen = Seen(gone)  # type: ignore[arg-type] # it stands for one
    cluster.create(config_map("a"))
    cluster.create(config_map("b"))
    seen.store.start()
    assert {seen.next()[0], seen.next()[0]} == {"a", "b"}
    gone.break_off()
    found = [seen.next() for _ in range(2)]
    assert ("a", "red", None) in found
    assert seen.store.items() == [(ObjectKey("default", "b"), "red")]
    seen.store.close()


class _Interrupted:
    """A cluster whose watch ends, and whose history has been forgotten by then."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._watch: Any = None
        self._watches = Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def watch(self, *args: Any, **options: Any) -> Any:
        self._watch = self._cluster.watch(*args, **options)
        self._watches.set()
        return self._watch

    def break_off(self) -> None:
        assert self._watches.wait(20)
        watch, cluster = self._watch, self._cluster
        # Nobody may hear of the deletion: the watch is deaf before it is made.
        watch.offer = lambda _change: None
        cluster.delete(CONFIG_MAPS, "a", namespace="default")
        cluster.compact()
        watch.close()


def test_only_namespaces_that_are_named_are_seen(cluster: MemoryCluster) -> None:
    for namespace in ("one", "two", "three"):
        cluster.create(config_map(namespace, namespace=namespace))
    seen = Seen(cluster, "one", "two")
    seen.store.start()
    assert {seen.next()[0], seen.next()[0]} == {"one", "two"}
    assert len(seen.store) == 2
    seen.store.close()
