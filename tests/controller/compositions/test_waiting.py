"""Waiting composite resources look again when what they lack is there, and not before.

The clock stands still in these tests, so nobody looks again because of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.kube.resources import CONFIG_MAPS, GroupVersionResource
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS
from kanister_py.ports.cluster import Cluster, KubeObject, Watch
from tests.controller.compositions.test_kinds import (
    World,
    bucket,
    cluster_with_kinds,
    composition,
    definition,
)
from tests.controller.compositions.test_requirements import (
    BY_NAME,
    config_map,
    environment,
    in_surroundings,
)
from tests.fake_clock import FakeClock

REVISIONS = CompositionSettings("kanister-py", uses_revisions=True)


@pytest.fixture(params=[True, False], ids=["with revisions", "without revisions"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = begun(CompositionSettings("kanister-py", uses_revisions=request.param))
    yield made
    made.close()


@pytest.fixture
def revised() -> Iterator[World]:
    made = begun(REVISIONS)
    yield made
    made.close()


def begun(settings: CompositionSettings) -> World:
    made = World(settings, clock=FakeClock())
    made.start()
    made.define(definition())
    return made


def until_it_failed(world: World) -> None:
    clock = world.clock
    assert isinstance(clock, FakeClock)

    def has_failed() -> bool:
        # What another write got in the way of is tried again in time.
        clock.advance(0.1)
        return world.condition("Synced").get("status") == "False"

    world.until(has_failed)
    world.until_rest()


def test_a_resource_without_any_composition_is_composed_when_one_comes(world: World) -> None:
    world.say(bucket())
    until_it_failed(world)
    world.say(composition())
    world.until(world.is_ready)


def test_nothing_is_composed_while_the_controller_is_paused() -> None:
    first = begun(REVISIONS)
    first.close()
    paused = World(REVISIONS._replace(is_paused=True), first.cluster, FakeClock())
    paused.start()
    paused.say(composition())
    paused.say(bucket())
    paused.until_rest()
    assert paused.writes == []
    paused.close()
    again = World(REVISIONS, first.cluster, FakeClock())
    again.start()
    again.until(again.is_ready)
    again.close()


def test_a_resource_is_composed_when_the_composition_it_names_comes(world: World) -> None:
    world.say(bucket(compositionRef={"name": "later"}))
    until_it_failed(world)
    world.say(composition(name="other"))
    world.until_rest()
    assert not world.is_ready()
    world.say(composition(name="later"))
    world.until(world.is_ready)


@pytest.mark.parametrize("policy", ["Automatic", "Manual"])
def test_a_resource_is_composed_when_a_revision_that_it_selects_comes(
    revised: World, policy: str
) -> None:
    stable = {"matchLabels": {"channel": "stable"}}
    revised.say(composition("red", channel="alpha"))
    revised.until(lambda: len(revised.cluster.list(COMPOSITION_REVISIONS).items) == 1)
    revised.until_rest()
    revised.say(bucket(compositionRevisionSelector=stable, compositionUpdatePolicy=policy))
    until_it_failed(revised)
    revised.say(composition("green", channel="stable"))
    revised.until(revised.is_ready)
    assert revised.colours() == {"green"}


def test_a_resource_is_composed_when_what_a_function_misses_comes(world: World) -> None:
    world.say(in_surroundings(BY_NAME))
    world.say(bucket(names=()))
    until_it_failed(world)
    world.say(environment("red"))
    world.until(world.is_ready)


def test_a_step_that_is_given_something_follows_it(world: World) -> None:
    given = composition()
    step = given["spec"]["pipeline"][0]
    step["requirements"] = {
        "requiredResources": [
            {
                "requirementName": "settings",
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "settings",
                "namespace": "default",
            }
        ]
    }
    step["input"]["inline"]["template"] = """
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    gotemplating.fn.crossplane.io/composition-resource-name: a
    gotemplating.fn.crossplane.io/ready: "True"
data:
  colour: {{ (index .requiredResources.settings.items 0).resource.data.colour }}
"""
    world.say({**config_map("settings"), "data": {"colour": "red"}})
    world.say(given)
    world.say(bucket(names=()))
    world.until(world.is_ready)
    world.until_rest()
    world.say({**config_map("settings"), "data": {"colour": "green"}})
    world.until(lambda: world.colours() == {"green"})


class MuteOnMaps:
    """A cluster whose watches on ConfigMaps never tell of anything."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def watch(self, resource: GroupVersionResource, **options: Any) -> Watch:
        if resource == CONFIG_MAPS:
            options["field_selector"] = "metadata.name=there-is-none"
        return self._cluster.watch(resource, **options)


def test_a_lone_resource_is_ready_before_any_watch_tells_of_what_it_composed() -> None:
    cluster = cluster_with_kinds()
    world = World(REVISIONS, cluster, FakeClock(), through=MuteOnMaps(cluster))
    world.start()
    world.define(definition())
    world.say(with_auto_ready())
    try:
        for name in ("first", "second"):
            # The clock stands still: nobody looks again because of the time, either.
            world.say(bucket(name, ("a",)))
            world.until(lambda: world.is_ready(name))  # noqa: B023 # it is asked for at once
    finally:
        world.close()


def with_auto_ready() -> KubeObject:
    """Give a Composition whose resources are ready when they are seen to be there."""
    made = composition()
    (step,) = made["spec"]["pipeline"]
    template = step["input"]["inline"]["template"]
    step["input"]["inline"]["template"] = template.replace(
        'gotemplating.fn.crossplane.io/ready: "True"', 'a: "b"'
    )
    ready = {"step": "ready", "functionRef": {"name": "function-auto-ready"}}
    made["spec"]["pipeline"] = [step, ready]
    return made


@pytest.mark.parametrize("ready", ["True", "False"], ids=["ready", "not ready"])
def test_a_poll_looks_at_its_interval_and_not_before(ready: str) -> None:
    world = begun(REVISIONS._replace(poll_seconds=60.0))
    clock = world.clock
    assert isinstance(clock, FakeClock)
    given = composition()
    inline = given["spec"]["pipeline"][0]["input"]["inline"]
    inline["template"] = inline["template"].replace('ready: "True"', f'ready: "{ready}"')
    world.say(given)
    # A bucket that came before its Composition would be tried again, whatever the interval.
    world.until_rest()
    world.say(bucket())

    def looks() -> float:
        return float(world.metrics.passes.labels("CompositeResource", "done")._value.get())

    try:
        world.until(lambda: world.condition("Ready").get("status") == ready)
        world.until_rest()
        before = looks()
        clock.advance(59.0)
        world.until_rest()
        assert looks() == before
        clock.advance(1.0)
        world.until(lambda: looks() > before)
    finally:
        world.close()


def test_one_that_cannot_be_composed_is_tried_later_and_later(world: World) -> None:
    clock = world.clock
    assert isinstance(clock, FakeClock)
    world.say(bucket())
    until_it_failed(world)

    def failures() -> int:
        return sum("ComposeResources" in each for each in world.events)

    def next_failure() -> float:
        before, began = failures(), clock.monotonic()
        while failures() == before:
            clock.advance(0.25)
            world.until_rest()
        return clock.monotonic() - began

    # The first may come before its time is full, or after two looks at once.
    next_failure()
    waits = [next_failure() for _ in range(3)]
    assert waits[0] >= 1.0
    assert all(later >= 2 * sooner - 0.5 for sooner, later in pairwise(waits))
