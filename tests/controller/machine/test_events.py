"""Events: order, counting, parallel posting, and flushing at a stop."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier, Condition, Event, Lock
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.machine.events import NORMAL, EventPoster, Subject
from kanister_py.core.errors import Forbidden
from kanister_py.core.kube.resources import EVENTS
from kanister_py.embedded.cluster.cluster import MemoryCluster

SUBJECT = Subject("cr.kanister.io/v1alpha1", "ActionSet", "default", "one", "uid-1")


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(clock=SystemClock())


@pytest.fixture
def poster(cluster: MemoryCluster) -> Iterator[EventPoster]:
    event_poster = EventPoster(cluster, SystemClock(), host="here")
    yield event_poster
    event_poster.close()


def events_in(cluster: MemoryCluster) -> list[dict[str, Any]]:
    return cluster.list(EVENTS, namespace="default").items


def test_a_repeated_event_increases_the_count(cluster: MemoryCluster, poster: EventPoster) -> None:
    with cluster.watch(EVENTS, namespace="default", timeout_seconds=60) as watch:
        for _ in range(3):
            poster.post(SUBJECT, NORMAL, "Started Phase", "Executing phase x")
            assert next(watch).object["reason"] == "Started Phase"
    (event,) = events_in(cluster)
    assert event["count"] == 3
    assert event["source"] == {"component": "Kanister Controller", "host": "here"}


def test_events_of_cluster_scoped_objects_are_posted_in_the_default_namespace() -> None:
    # The account's namespace is a different one, as in a pod of the controller.
    cluster = MemoryCluster(clock=SystemClock(), default_namespace="kanister")
    poster = EventPoster(cluster, SystemClock())
    function = Subject("pkg.crossplane.io/v1", "Function", "", "fn", "uid-2")
    with cluster.watch(EVENTS, timeout_seconds=60) as watch:
        for _ in range(2):
            poster.post(function, NORMAL, "InstallPackage", "The package cannot be read")
            event = next(watch).object
    assert event["metadata"]["namespace"] == "default"
    assert event["count"] == 2
    assert "namespace" not in event["involvedObject"]
    poster.close()


def test_an_expired_event_is_created_again(cluster: MemoryCluster, poster: EventPoster) -> None:
    with cluster.watch(EVENTS, namespace="default", timeout_seconds=60) as watch:
        poster.post(SUBJECT, NORMAL, "Started Phase", "Executing phase x")
        first = next(watch).object["metadata"]["name"]
        cluster.delete(EVENTS, first, namespace="default")
        poster.post(SUBJECT, NORMAL, "Started Phase", "Executing phase x")
        kinds = [next(watch).type for _ in range(2)]
    assert kinds == ["DELETED", "ADDED"]


def test_events_that_cannot_be_posted_are_dropped(cluster: MemoryCluster) -> None:
    dropped = Event()

    class NoEvents:
        def __getattr__(self, name: str) -> Any:
            raise Forbidden("events is forbidden")

    refused: Any = NoEvents()
    poster = EventPoster(refused, SystemClock(), on_dropped=dropped.set)
    poster.post(SUBJECT, NORMAL, "Started Phase", "Executing phase x")
    assert dropped.wait(180)
    poster.close(1.0)


class Slow:
    """A cluster that is slow to post events, and records how many it handled at once."""

    def __init__(self, cluster: MemoryCluster, at_once: int = 1) -> None:
        self._cluster = cluster
        self._lock = Lock()
        self._full = Barrier(at_once)
        self.subjects: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def create(self, event: dict[str, Any]) -> Any:
        self._full.wait(180)
        with self._lock:
            self.subjects.append(event["involvedObject"]["name"])
        return self._cluster.create(event)


def test_events_of_several_objects_are_posted_in_parallel(cluster: MemoryCluster) -> None:
    slow: Any = Slow(cluster, at_once=3)
    poster = EventPoster(slow, SystemClock(), threads=3)
    for name in ("one", "two", "three"):
        poster.post(SUBJECT._replace(name=name, uid=name), NORMAL, "Started Phase", "x")
    # The cluster accepts none before it has received all three.
    poster.close(60.0)
    assert sorted(slow.subjects) == ["one", "three", "two"]


def test_events_of_one_object_are_posted_in_order_and_all_of_them_at_a_stop(
    cluster: MemoryCluster,
) -> None:
    dropped: list[None] = []
    slow: Any = Slow(cluster)
    poster = EventPoster(slow, SystemClock(), on_dropped=lambda: dropped.append(None))
    for number in range(200):
        poster.post(SUBJECT, NORMAL, "Started Phase", f"Executing phase {number}")
    poster.close(60.0)
    events = sorted(events_in(cluster), key=lambda event: int(event["metadata"]["resourceVersion"]))
    assert [event["message"] for event in events] == [f"Executing phase {n}" for n in range(200)]
    assert not dropped


def test_events_left_at_the_timeout_are_counted_as_dropped(cluster: MemoryCluster) -> None:
    dropped: list[None] = []
    stuck: Any = Slow(cluster, at_once=2)
    poster = EventPoster(stuck, SystemClock(), threads=1, on_dropped=lambda: dropped.append(None))
    for number in range(5):
        poster.post(SUBJECT, NORMAL, "Started Phase", f"Executing phase {number}")
    poster.close(0.1)
    assert len(dropped) >= 4
    stuck._full.abort()


def test_an_event_wakes_one_idle_thread(cluster: MemoryCluster) -> None:
    rests = Condition()
    waits = 0

    class Clock(SystemClock):
        def wait(self, condition: Condition, timeout_seconds: float | None = None) -> bool:
            nonlocal waits
            if timeout_seconds is None:
                with rests:
                    waits += 1
                    rests.notify_all()
            return super().wait(condition, timeout_seconds)

    def until_waited(times: int) -> None:
        with rests:
            assert rests.wait_for(lambda: waits >= times, 180)

    slow: Any = Slow(cluster, at_once=3)
    poster = EventPoster(slow, Clock(), threads=3)
    for name in ("one", "two", "three"):
        poster.post(SUBJECT._replace(name=name, uid=name), NORMAL, "Started Phase", "x")
    until_waited(3)
    before, slow._full = waits, Barrier(1)
    for number in range(10):
        poster.post(SUBJECT, NORMAL, "Started Phase", f"{number}")
        until_waited(before + number + 1)
    poster.close(60.0)
    assert waits == before + 10
