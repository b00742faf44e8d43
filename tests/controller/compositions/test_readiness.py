"""Readiness: a replica is not ready too early, and one broken kind does not make it unready."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
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
from tests.controller.compositions.faulty_cluster import Faulty, Gate
from tests.controller.compositions.harness import (
    BUCKETS,
    Harness,
    bucket,
    cluster_with_kinds,
    composition,
    definition,
)
from tests.fake_clock import FakeClock

REVISIONS = CompositionSettings("kanister-py", uses_revisions=True)
COMPOSED_WITH = (COMPOSITIONS, COMPOSITION_REVISIONS, FUNCTION_REVISIONS)


@pytest.fixture
def cluster() -> MemoryCluster:
    """Return a cluster with a kind that an earlier controller has defined and composed."""
    cluster = cluster_with_kinds()
    before = Harness(REVISIONS, cluster)
    before.start()
    before.define(definition())
    before.apply(composition())
    before.until(lambda: bool(cluster.list(COMPOSITION_REVISIONS).items))
    before.until_idle()
    before.close()
    return cluster


@pytest.fixture
def faulty(cluster: MemoryCluster) -> Faulty:
    return Faulty(cluster)


Start = Callable[..., Harness]


@pytest.fixture
def start(cluster: MemoryCluster, faulty: Faulty) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(settings: CompositionSettings = REVISIONS) -> Harness:
            # With a fake clock, a failed list is not retried.
            harness = Harness(settings, cluster, FakeClock(), through=faulty)
            stack.callback(harness.close)
            harness.start()
            return harness

        yield begin
        for answer in faulty.answers.values():
            if isinstance(answer, Gate):
                answer.is_open.set()


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
            id="a definition is not reconciled",
        ),
        pytest.param(
            "list",
            BUCKETS,
            "has not listed all xbuckets.example.org yet",
            id="its resources are not listed",
        ),
    ],
)
def test_a_replica_is_ready_once_it_composes_new_resources_immediately(
    faulty: Faulty, start: Start, verb: str, resource: GroupVersionResource, lack: str
) -> None:
    gate = faulty.answers[verb, resource] = Gate()
    harness = start()
    seen = harness.compositions.cache
    harness.until(lambda: all(map(seen.has_synced, COMPOSED_WITH)) and gate.is_asked.is_set())
    harness.until(lambda: harness.compositions.trouble == lack)
    gate.is_open.set()
    harness.until(lambda: harness.compositions.trouble == "")
    assert seen.has_synced(BUCKETS)
    harness.apply(bucket())
    harness.until(harness.is_ready)


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
def test_a_broken_kind_does_not_make_a_replica_unready(
    faulty: Faulty,
    start: Start,
    verb: str,
    resource: GroupVersionResource,
    change: Callable[[Any], Any],
) -> None:
    faulty.answers[verb, resource] = change
    harness = start()
    harness.until(lambda: harness.compositions.trouble == "")


def test_a_composed_kind_that_cannot_be_watched_does_not_make_a_replica_unready(
    faulty: Faulty, start: Start
) -> None:
    faulty.answers["list", CONFIG_MAPS] = refuse
    harness = start()
    harness.apply(bucket())
    harness.until(lambda: bool(harness.compositions.cache.trouble_of(CONFIG_MAPS)))
    harness.until(lambda: harness.compositions.trouble == "")


def test_a_replica_is_unready_while_compositions_and_functions_cannot_be_listed(
    faulty: Faulty, start: Start
) -> None:
    faulty.answers["list", COMPOSITIONS] = refuse
    harness = start()
    harness.until(lambda: "xbuckets.example.org is forbidden" in harness.compositions.trouble)
    assert harness.compositions.trouble.startswith("Cannot watch compositions.")


def test_a_paused_replica_is_ready(start: Start) -> None:
    harness = start(REVISIONS._replace(is_paused=True))
    harness.until(lambda: harness.compositions.trouble == "")
