"""Shared watches: wake-ups of waiters, and their cost for the cluster."""

from __future__ import annotations

import threading
from queue import Queue
from typing import Any

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.errors import ClusterUnavailable, Forbidden
from kanister_py.core.kube.resources import CONFIG_MAPS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.watching import Read, SharedWatches
from kanister_py.ports.cluster import ObjectList
from tests.fake_clock import FakeClock

READ = Read(CONFIG_MAPS, "default", "a")


def config_map(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


class UnreliableCluster:
    """Cluster that can refuse or interrupt watches, and counts lists and watches."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(clock=SystemClock())
        self.error: Exception | None = None
        self.lists = 0
        self.watches: list[Any] = []

    def list(self, *args: Any, **options: Any) -> ObjectList:
        self.lists += 1
        return self.cluster.list(*args, **options)

    def watch(self, *args: Any, **options: Any) -> Any:
        if self.error is not None:
            raise self.error
        watch = self.cluster.watch(*args, **options)
        self.watches.append(watch)
        return watch


class Waiter:
    """Subscriber that counts its wake-ups."""

    def __init__(self, cluster: UnreliableCluster, clock: FakeClock) -> None:
        self.wake_ups: Queue[None] = Queue()
        watches = SharedWatches(cluster, clock)  # type: ignore[arg-type] # only lists and watches
        self.subscription = watches.subscribe([READ], lambda: self.wake_ups.put(None))

    def wait(self) -> None:
        self.wake_ups.get(timeout=180)


def test_a_change_wakes_the_waiter_and_another_object_does_not() -> None:
    cluster = UnreliableCluster()
    waiter = Waiter(cluster, FakeClock())
    waiter.wait()
    cluster.cluster.create(config_map("b"))
    cluster.cluster.create(config_map("a"))
    waiter.wait()
    assert waiter.wake_ups.empty()
    waiter.subscription.close()


def test_a_change_during_an_interruption_wakes_the_waiter_without_a_new_list() -> None:
    cluster, clock = UnreliableCluster(), FakeClock()
    cluster.error = ClusterUnavailable("The API server is down")
    waiter = Waiter(cluster, clock)
    # Once for the list, once for the failed watch.
    waiter.wait()
    waiter.wait()
    cluster.cluster.create(config_map("a"))
    cluster.error = None
    assert clock.wait_for_sleepers(1)
    clock.advance(1)
    waiter.wait()
    assert cluster.lists == 1
    waiter.subscription.close()


def test_a_refused_watch_makes_the_waiter_poll() -> None:
    cluster = UnreliableCluster()
    cluster.error = Forbidden("configmaps is forbidden")
    waiter = Waiter(cluster, FakeClock())
    waiter.wait()
    waiter.wait()
    assert waiter.subscription.is_blind
    waiter.subscription.close()


def test_a_thousand_woken_waiters_read_a_few_at_a_time() -> None:
    watches = SharedWatches(MemoryCluster(clock=SystemClock()), SystemClock())
    lock, full, go = threading.Lock(), threading.Event(), threading.Event()
    counts: list[int] = []
    active = 0

    def read() -> bool:
        nonlocal active
        with lock:
            active += 1
            counts.append(active)
            if active == 16:
                full.set()
        assert go.wait(180)
        with lock:
            active -= 1
        return True

    waiters = [threading.Thread(target=watches.read_in_slot, args=(read,)) for _ in range(1000)]
    for waiter in waiters:
        waiter.start()
    assert full.wait(180)
    go.set()
    for waiter in waiters:
        waiter.join()
    assert len(counts) == 1000
    assert max(counts) == 16
