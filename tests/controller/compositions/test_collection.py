"""Garbage collection of unused CompositionRevisions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kanister_py.controller.compositions.collection import collect_revisions
from kanister_py.controller.compositions.served_kinds import Served
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, DEFINITIONS
from kanister_py.ports.cluster import Propagation
from tests.controller.compositions.faulty_cluster import Faulty, Gate
from tests.controller.compositions.harness import (
    BUCKETS,
    Harness,
    bucket,
    composition,
    definition,
)

SETTINGS = CompositionSettings("kanister-py", uses_revisions=True, keeps_revisions=1)


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness(SETTINGS)
    running.start()
    yield running
    running.close()


def revise(harness: Harness, *colours: str, name: str = "bucket") -> None:
    for colour in colours:
        before = len(harness.cluster.list(COMPOSITION_REVISIONS).items)
        harness.apply(composition(colour, name, channel="stable" if colour == "red" else "alpha"))
        harness.until(lambda: len(harness.cluster.list(COMPOSITION_REVISIONS).items) > before)  # noqa: B023 # it is called immediately
        harness.until_idle()


def numbers(harness: Harness) -> list[int]:
    revision = harness.cluster.list(COMPOSITION_REVISIONS).items
    return sorted(obj["spec"]["revision"] for obj in revision)


def test_unused_revisions_except_the_newest_are_deleted(harness: Harness) -> None:
    harness.define(definition())
    revise(harness, "red", "green", "blue")
    assert len(harness.compositions.collect_revisions()) == 2
    assert numbers(harness) == [3]
    assert harness.compositions.collect_revisions() == []


def test_revisions_that_a_resource_uses_or_selects_are_kept(harness: Harness) -> None:
    harness.define(definition())
    revise(harness, "red")
    stable = {"matchLabels": {"channel": "stable"}}
    harness.apply(bucket("selects", compositionRevisionSelector=stable))
    harness.until(lambda: harness.is_ready("selects"))
    revise(harness, "green")
    harness.apply(bucket("holds", compositionUpdatePolicy="Manual"))
    harness.until(lambda: harness.is_ready("holds"))
    revise(harness, "blue", "black")
    harness.compositions.collect_revisions()
    assert numbers(harness) == [1, 2, 4]


def test_nothing_is_deleted_while_resources_cannot_be_listed(harness: Harness) -> None:
    revise(harness, "red", "green")
    assert harness.compositions.collect_revisions() == []
    harness.define(definition())
    harness.until_idle()
    assert len(harness.compositions.collect_revisions()) == 1


def test_nothing_is_deleted_for_a_kind_that_is_added_meanwhile(harness: Harness) -> None:
    cluster = harness.cluster
    harness.define(definition())
    revise(harness, "red")
    harness.apply(bucket(compositionUpdatePolicy="Manual"))
    harness.until(harness.is_ready)
    revise(harness, "green")
    harness.close()
    # Its resources exist, but are not in the cache at first.
    undefined = cluster.get(DEFINITIONS, "xbuckets.example.org")
    undefined["metadata"]["finalizers"] = []
    cluster.replace(undefined)
    cluster.delete(DEFINITIONS, "xbuckets.example.org", propagation=Propagation.ORPHAN)
    faulty, gate = Faulty(cluster), Gate()
    faulty.answers["list", BUCKETS] = gate
    again = Harness(SETTINGS, cluster, through=faulty)
    again.start()
    kinds = again.compositions._kinds

    def before_one_comes() -> Iterator[Served]:
        yield from tuple(kinds)
        again.apply(definition())
        again.until(lambda: bool(tuple(kinds)))

    try:
        again.until(lambda: len(again.compositions.index.names_with_revisions) == 1)
        again.until_idle()
        compositions = again.compositions
        assert (
            collect_revisions(
                cluster, compositions.cache, compositions.index, before_one_comes(), 1
            )
            == []
        )
        assert tuple(kinds)
        gate.is_open.set()
        again.until_idle()
        assert again.compositions.collect_revisions() == []
    finally:
        gate.is_open.set()
        again.close()
    assert numbers(again) == [1, 2]
