"""Readiness of composing: no replica is ready too early, and none is kept back by one kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event
from typing import Any

import pytest

from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.errors import Forbidden, InternalError
from kanister_py.core.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    GroupVersionResource,
)
from kanister_py.core.revisions.kinds import (
    COMPOSITION_REVISIONS,
    COMPOSITIONS,
    DEFINITIONS,
    FUNCTION_REVISIONS,
)
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import KubeObject, ObjectList
from tests.controller.compositions.test_kinds import (
    BUCKETS,
    LIMIT_SECONDS,
    World,
    bucket,
    cluster_with_kinds,
    composition,
    definition,
)
from tests.fake_clock import FakeClock

REVISIONS = CompositionSettings("kanister-py", uses_revisions=True)
COMPOSED_WITH = (COMPOSITIONS, COMPOSITION_REVISIONS, FUNCTION_REVISIONS)


class Faulty:
    """A cluster of which a test says how it answers what."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.answers: dict[tuple[str, GroupVersionResource], Callable[[Any], Any]] = {}
        """What becomes of an answer, by the verb and the kind."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if name not in ("get", "list", "watch", "delete"):
            return found

        def call(resource: GroupVersionResource, *args: Any, **options: Any) -> Any:
            answer = found(resource, *args, **options)
            change = self.answers.get((name, resource))
            return answer if change is None else change(answer)

        return call


class Gate:
    """Holds an answer back."""

    def __init__(self) -> None:
        self.is_asked, self.is_open = Event(), Event()

    def __call__(self, answer: Any) -> Any:
        self.is_asked.set()
        assert self.is_open.wait(LIMIT_SECONDS)
        return answer


@pytest.fixture
def cluster() -> MemoryCluster:
    """Give a cluster on which a kind is defined and composed, by a controller that is gone."""
    cluster = cluster_with_kinds()
    before = World(REVISIONS, cluster)
    before.start()
    before.define(definition())
    before.say(composition())
    before.until(lambda: bool(cluster.list(COMPOSITION_REVISIONS).items))
    before.until_rest()
    before.close()
    return cluster


@pytest.fixture
def faulty(cluster: MemoryCluster) -> Faulty:
    return Faulty(cluster)


Start = Callable[..., World]


@pytest.fixture
def start(cluster: MemoryCluster, faulty: Faulty) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(settings: CompositionSettings = REVISIONS) -> World:
            # The clock stands still: what could not be listed is not listed again.
            world = World(settings, cluster, FakeClock(), through=faulty)
            stack.callback(world.close)
            world.start()
            return world

        yield begin
        for each in faulty.answers.values():
            if isinstance(each, Gate):
                each.is_open.set()


@pytest.mark.parametrize(
    ("verb", "resource", "lack"),
    [
        pytest.param(
            "list",
            CUSTOM_RESOURCE_DEFINITIONS,
            "has not listed all customresourcedefinitions.apiextensions.k8s.io yet",
            id="kinds are not listed",
        ),
        pytest.param(
            "list",
            DEFINITIONS,
            "has not listed all compositeresourcedefinitions.apiextensions.crossplane.io yet",
            id="definitions are not listed",
        ),
        pytest.param(
            "get",
            DEFINITIONS,
            "has not reconciled the definition xbuckets.example.org yet",
            id="a definition is not looked at",
        ),
        pytest.param(
            "list",
            BUCKETS,
            "has not listed all xbuckets.example.org yet",
            id="its resources are not listed",
        ),
    ],
)
def test_it_is_ready_once_a_resource_that_comes_is_composed_at_once(
    faulty: Faulty, start: Start, verb: str, resource: GroupVersionResource, lack: str
) -> None:
    gate = faulty.answers[verb, resource] = Gate()
    world = start()
    seen = world.compositions.cache
    world.until(lambda: all(map(seen.has_synced, COMPOSED_WITH)) and gate.is_asked.is_set())
    world.until(lambda: world.compositions.trouble == lack)
    gate.is_open.set()
    world.until(lambda: world.compositions.trouble == "")
    assert seen.has_synced(BUCKETS)
    world.say(bucket())
    world.until(world.is_ready)


def refuse(_answer: Any) -> Any:
    raise Forbidden("xbuckets.example.org is forbidden")


def fail(_answer: Any) -> Any:
    raise InternalError("conversion webhook failed")


def spoil(answer: ObjectList) -> ObjectList:
    return ObjectList([{"kind": "XBucket"}], answer.resource_version)


def not_established(answer: KubeObject) -> KubeObject:
    return {**answer, "status": {}}


@pytest.mark.parametrize(
    ("verb", "resource", "change"),
    [
        pytest.param("list", BUCKETS, refuse, id="its resources must not be listed"),
        pytest.param("list", BUCKETS, fail, id="its resources cannot be listed"),
        pytest.param("list", BUCKETS, spoil, id="its resources cannot be read"),
        pytest.param("watch", BUCKETS, refuse, id="its resources must not be watched"),
        pytest.param("get", DEFINITIONS, fail, id="its definition cannot be read"),
        pytest.param(
            "get", CUSTOM_RESOURCE_DEFINITIONS, not_established, id="it is not established"
        ),
    ],
)
def test_one_kind_that_is_broken_keeps_no_replica_from_the_others(
    faulty: Faulty,
    start: Start,
    verb: str,
    resource: GroupVersionResource,
    change: Callable[[Any], Any],
) -> None:
    faulty.answers[verb, resource] = change
    world = start()
    world.until(lambda: world.compositions.trouble == "")


def test_what_is_composed_and_must_not_be_watched_is_no_trouble_of_the_replica(
    faulty: Faulty, start: Start
) -> None:
    faulty.answers["list", CONFIG_MAPS] = refuse
    world = start()
    world.say(bucket())
    world.until(lambda: bool(world.compositions.cache.trouble_of(CONFIG_MAPS)))
    world.until(lambda: world.compositions.trouble == "")


def test_it_is_not_ready_while_what_all_is_composed_with_cannot_be_seen(
    faulty: Faulty, start: Start
) -> None:
    faulty.answers["list", COMPOSITIONS] = refuse
    world = start()
    world.until(lambda: "xbuckets.example.org is forbidden" in world.compositions.trouble)
    assert world.compositions.trouble.startswith("Cannot watch compositions.")


def test_one_that_is_paused_is_ready(start: Start) -> None:
    world = start(REVISIONS._replace(is_paused=True))
    world.until(lambda: world.compositions.trouble == "")
