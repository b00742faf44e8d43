"""Is the same thing told once, and does telling hold nobody up?"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.machine.events import NORMAL, EventPoster, Subject
from kanister_py.core.errors import Forbidden
from kanister_py.core.objects.resources import EVENTS
from kanister_py.embedded.cluster.cluster import MemoryCluster

SUBJECT = Subject("cr.kanister.io/v1alpha1", "ActionSet", "default", "one", "uid-1")


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(clock=SystemClock())


@pytest.fixture
def poster(cluster: MemoryCluster) -> Iterator[EventPoster]:
    made = EventPoster(cluster, SystemClock(), host="here")
    yield made
    made.close()


def told(cluster: MemoryCluster) -> list[dict[str, Any]]:
    return cluster.list(EVENTS, namespace="default").items


def test_what_happens_again_is_counted_not_told_again(
    cluster: MemoryCluster, poster: EventPoster
) -> None:
    with cluster.watch(EVENTS, namespace="default", timeout_seconds=60) as watch:
        for _ in range(3):
            poster.post(SUBJECT, NORMAL, "Started Phase", "Executing phase x")
            assert next(watch).object["reason"] == "Started Phase"
    (event,) = told(cluster)
    assert event["count"] == 3
    assert event["source"] == {"component": "Kanister Controller", "host": "here"}


def test_an_event_that_has_expired_is_told_anew(
    cluster: MemoryCluster, poster: EventPoster
) -> None:
    with cluster.watch(EVENTS, namespace="default", timeout_seconds=60) as watch:
        poster.post(SUBJECT, NORMAL, "Started Phase", "Executing phase x")
        first = next(watch).object["metadata"]["name"]
        cluster.delete(EVENTS, first, namespace="default")
        poster.post(SUBJECT, NORMAL, "Started Phase", "Executing phase x")
        kinds = [next(watch).type for _ in range(2)]
    assert kinds == ["DELETED", "ADDED"]


def test_what_cannot_be_told_is_left_out(cluster: MemoryCluster) -> None:
    dropped = Event()

    class NoEvents:
        def __getattr__(self, name: str) -> Any:
            raise Forbidden("events is forbidden")

    refused: Any = NoEvents()
    poster = EventPoster(refused, SystemClock(), on_dropped=dropped.set)
    poster.post(SUBJECT, NORMAL, "Started Phase", "Executing phase x")
    assert dropped.wait(60)
    poster.close(1.0)
