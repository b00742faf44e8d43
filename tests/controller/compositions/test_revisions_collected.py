"""Collection of CompositionRevisions: those go that nobody uses, and only those."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kanister_py.controller.compositions.collection import collect_revisions
from kanister_py.controller.compositions.served_kinds import Served
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, DEFINITIONS
from kanister_py.ports.cluster import Propagation
from tests.controller.compositions.test_kinds import (
    BUCKETS,
    World,
    bucket,
    composition,
    definition,
)
from tests.controller.compositions.test_readiness import Faulty, Gate

SETTINGS = CompositionSettings("kanister-py", uses_revisions=True, keeps_revisions=1)


@pytest.fixture
def world() -> Iterator[World]:
    made = World(SETTINGS)
    made.start()
    yield made
    made.close()


def revise(world: World, *colours: str, name: str = "bucket") -> None:
    for colour in colours:
        before = len(world.cluster.list(COMPOSITION_REVISIONS).items)
        world.say(composition(colour, name, channel="stable" if colour == "red" else "alpha"))
        world.until(lambda: len(world.cluster.list(COMPOSITION_REVISIONS).items) > before)  # noqa: B023 # it is asked for at once
        world.until_rest()


def numbers(world: World) -> list[int]:
    found = world.cluster.list(COMPOSITION_REVISIONS).items
    return sorted(each["spec"]["revision"] for each in found)


def test_all_but_the_newest_go_if_nobody_uses_them(world: World) -> None:
    world.define(definition())
    revise(world, "red", "green", "blue")
    assert len(world.compositions.collect_revisions()) == 2
    assert numbers(world) == [3]
    assert world.compositions.collect_revisions() == []


def test_what_a_resource_holds_or_selects_stays(world: World) -> None:
    world.define(definition())
    revise(world, "red")
    stable = {"matchLabels": {"channel": "stable"}}
    world.say(bucket("selects", compositionRevisionSelector=stable))
    world.until(lambda: world.is_ready("selects"))
    revise(world, "green")
    world.say(bucket("holds", compositionUpdatePolicy="Manual"))
    world.until(lambda: world.is_ready("holds"))
    revise(world, "blue", "black")
    world.compositions.collect_revisions()
    assert numbers(world) == [1, 2, 4]


def test_nothing_goes_while_the_resources_cannot_be_seen(world: World) -> None:
    revise(world, "red", "green")
    assert world.compositions.collect_revisions() == []
    world.define(definition())
    world.until_rest()
    assert len(world.compositions.collect_revisions()) == 1


def test_nothing_goes_for_a_kind_that_comes_in_the_middle(world: World) -> None:
    cluster = world.cluster
    world.define(definition())
    revise(world, "red")
    world.say(bucket(compositionUpdatePolicy="Manual"))
    world.until(world.is_ready)
    revise(world, "green")
    world.close()
    # Its resources stay, and nothing is known of them at first.
    undefined = cluster.get(DEFINITIONS, "xbuckets.example.org")
    undefined["metadata"]["finalizers"] = []
    cluster.replace(undefined)
    cluster.delete(DEFINITIONS, "xbuckets.example.org", propagation=Propagation.ORPHAN)
    faulty, gate = Faulty(cluster), Gate()
    faulty.answers["list", BUCKETS] = gate
    again = World(SETTINGS, cluster, through=faulty)
    again.start()
    kinds = again.compositions._kinds

    def before_one_comes() -> Iterator[Served]:
        yield from tuple(kinds)
        again.say(definition())
        again.until(lambda: bool(tuple(kinds)))

    try:
        again.until(lambda: len(again.compositions.index.names_with_revisions) == 1)
        again.until_rest()
        compositions = again.compositions
        assert (
            collect_revisions(
                cluster, compositions.cache, compositions.index, before_one_comes(), 1
            )
            == []
        )
        assert tuple(kinds)
        gate.is_open.set()
        again.until_rest()
        assert again.compositions.collect_revisions() == []
    finally:
        gate.is_open.set()
        again.close()
    assert numbers(again) == [1, 2]
