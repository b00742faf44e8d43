"""Following objects: callbacks for objects that appear, change, disappear or are replaced."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue
from typing import Any

import pytest

from kanister_py.core.errors import ClusterUnavailable
from kanister_py.core.kube.resources import CONFIG_MAPS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.following import follow_objects
from kanister_py.executor.watch_cache import WatchCache
from kanister_py.ports.cluster import KubeObject
from tests.fake_clock import FakeClock


class Followed:
    """A watch cache that records its callbacks; `failures` of them raise first."""

    def __init__(self, cluster: MemoryCluster, clock: FakeClock) -> None:
        self.calls: Queue[tuple[str, str]] = Queue()
        self.failures = 0
        self.cache: WatchCache[KubeObject] = follow_objects(
            cluster,
            CONFIG_MAPS,
            self._on_present,
            lambda obj: self.calls.put(("gone", obj["metadata"]["uid"])),
            clock,
        )

    def _on_present(self, obj: KubeObject) -> None:
        if self.failures:
            self.failures -= 1
            raise ClusterUnavailable("The API server is down")
        self.calls.put(("present", obj["metadata"]["uid"]))

    def next(self) -> tuple[str, str]:
        return self.calls.get(timeout=180)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(clock=FakeClock())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def followed(cluster: MemoryCluster, clock: FakeClock) -> Iterator[Followed]:
    objects = Followed(cluster, clock)
    yield objects
    objects.cache.close(waits=True)


def create(cluster: MemoryCluster) -> str:
    metadata: dict[str, Any] = {"name": "a", "namespace": "default"}
    obj = cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    uid: str = obj["metadata"]["uid"]
    return uid


def test_an_object_is_reported_when_it_appears_and_when_it_is_gone(
    cluster: MemoryCluster, followed: Followed
) -> None:
    uid = create(cluster)
    followed.cache.start()
    assert followed.next() == ("present", uid)
    cluster.delete(CONFIG_MAPS, "a", namespace="default")
    assert followed.next() == ("gone", uid)


def test_a_callback_that_fails_is_called_again(
    cluster: MemoryCluster, followed: Followed, clock: FakeClock
) -> None:
    followed.failures = 1
    followed.cache.start()
    uid = create(cluster)
    assert clock.wait_for_sleepers(1)
    clock.advance(1)
    assert followed.next() == ("present", uid)


def test_an_object_that_was_replaced_is_gone_before_its_successor_is_present(
    cluster: MemoryCluster, followed: Followed, clock: FakeClock
) -> None:
    old = create(cluster)
    followed.cache.start()
    assert followed.next() == ("present", old)
    # The history that holds the deletion is lost, so that the cache lists again.
    followed.failures = 1
    cluster.patch(CONFIG_MAPS, "a", {"data": {"c": "red"}}, namespace="default")
    assert clock.wait_for_sleepers(1)
    cluster.delete(CONFIG_MAPS, "a", namespace="default")
    new = create(cluster)
    cluster.compact()
    clock.advance(1)
    assert followed.next() == ("gone", old)
    assert followed.next() == ("present", new)
