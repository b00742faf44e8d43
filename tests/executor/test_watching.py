"""Shared watches: wake-ups of waiters, and their cost for the cluster."""

from __future__ import annotations

import threading

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.watching import SharedWatches


def test_a_thousand_that_wake_up_ask_the_cluster_a_few_at_a_time() -> None:
    watches = SharedWatches(MemoryCluster(clock=SystemClock()), SystemClock())
    lock, full, go = threading.Lock(), threading.Event(), threading.Event()
    at_once: list[int] = []
    asking = 0

    def read() -> bool:
        nonlocal asking
        with lock:
            asking += 1
            at_once.append(asking)
            if asking == 16:
                full.set()
        assert go.wait(180)
        with lock:
            asking -= 1
        return True

    woken = [threading.Thread(target=watches.look, args=(read,)) for _ in range(1000)]
    for each in woken:
        each.start()
    assert full.wait(180)
    go.set()
    for each in woken:
        each.join()
    assert len(at_once) == 1000
    assert max(at_once) == 16
