"""Composite resources are reconciled when missing objects are created, and not earlier.

These tests have a fake clock, so that no reconcile is due to the time.
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
from tests.controller.compositions.environments import (
    BY_NAME,
    config_map,
    environment,
    in_surroundings,
)
from tests.controller.compositions.harness import (
    Harness,
    bucket,
    cluster_with_kinds,
    composition,
    definition,
)
from tests.fake_clock import FakeClock

REVISIONS = CompositionSettings("kanister-py", uses_revisions=True)


@pytest.fixture(params=[True, False], ids=["with revisions", "without revisions"])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    running = started(CompositionSettings("kanister-py", uses_revisions=request.param))
    yield running
    running.close()


@pytest.fixture
def revised() -> Iterator[Harness]:
    running = started(REVISIONS)
    yield running
    running.close()


def started(settings: CompositionSettings) -> Harness:
    running = Harness(settings, clock=FakeClock())
    running.start()
    running.define(definition())
    return running


def until_it_failed(harness: Harness) -> None:
    clock = harness.clock
    assert isinstance(clock, FakeClock)

    def has_failed() -> bool:
        # A conflict with another write is retried after a delay.
        clock.advance(0.1)
        return harness.condition("Synced").get("status") == "False"

    harness.until(has_failed)
    harness.until_idle()


def test_a_resource_without_a_composition_is_composed_when_one_is_created(harness: Harness) -> None:
    harness.apply(bucket())
    until_it_failed(harness)
    harness.apply(composition())
    harness.until(harness.is_ready)


def test_nothing_is_composed_while_the_controller_is_paused() -> None:
    first = started(REVISIONS)
    first.close()
    paused = Harness(REVISIONS._replace(is_paused=True), first.cluster, FakeClock())
    paused.start()
    paused.apply(composition())
    paused.apply(bucket())
    paused.until_idle()
    assert paused.writes == []
    paused.close()
    again = Harness(REVISIONS, first.cluster, FakeClock())
    again.start()
    again.until(again.is_ready)
    again.close()


def test_a_resource_is_composed_when_its_named_composition_is_created(harness: Harness) -> None:
    harness.apply(bucket(compositionRef={"name": "later"}))
    until_it_failed(harness)
    harness.apply(composition(name="other"))
    harness.until_idle()
    assert not harness.is_ready()
    harness.apply(composition(name="later"))
    harness.until(harness.is_ready)


@pytest.mark.parametrize("policy", ["Automatic", "Manual"])
def test_a_resource_is_composed_when_a_selected_revision_is_created(
    revised: Harness, policy: str
) -> None:
    stable = {"matchLabels": {"channel": "stable"}}
    revised.apply(composition("red", channel="alpha"))
    revised.until(lambda: len(revised.cluster.list(COMPOSITION_REVISIONS).items) == 1)
    revised.until_idle()
    revised.apply(bucket(compositionRevisionSelector=stable, compositionUpdatePolicy=policy))
    until_it_failed(revised)
    revised.apply(composition("green", channel="stable"))
    revised.until(revised.is_ready)
    assert revised.colours() == {"green"}


def test_a_resource_is_composed_when_a_missing_required_resource_is_created(
    harness: Harness,
) -> None:
    harness.apply(in_surroundings(BY_NAME))
    harness.apply(bucket(names=()))
    until_it_failed(harness)
    harness.apply(environment("red"))
    harness.until(harness.is_ready)


def test_a_change_of_the_required_resources_of_a_step_causes_a_reconcile(harness: Harness) -> None:
    obj = composition()
    step = obj["spec"]["pipeline"][0]
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
    harness.apply({**config_map("settings"), "data": {"colour": "red"}})
    harness.apply(obj)
    harness.apply(bucket(names=()))
    harness.until(harness.is_ready)
    harness.until_idle()
    harness.apply({**config_map("settings"), "data": {"colour": "green"}})
    harness.until(lambda: harness.colours() == {"green"})


class SilentConfigMapWatches:
    """A cluster whose watches on ConfigMaps report no events."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def watch(self, resource: GroupVersionResource, **options: Any) -> Watch:
        if resource == CONFIG_MAPS:
            options["field_selector"] = "metadata.name=missing"
        return self._cluster.watch(resource, **options)


def test_a_resource_is_ready_before_the_watches_report_its_composed_resources() -> None:
    cluster = cluster_with_kinds()
    harness = Harness(REVISIONS, cluster, FakeClock(), through=SilentConfigMapWatches(cluster))
    harness.start()
    harness.define(definition())
    harness.apply(with_auto_ready())
    try:
        for name in ("first", "second"):
            # The clock is a fake, so no reconcile is due to the time either.
            harness.apply(bucket(name, ("a",)))
            harness.until(lambda: harness.is_ready(name))  # noqa: B023 # it is called immediately
    finally:
        harness.close()


def with_auto_ready() -> KubeObject:
    """Return a Composition that uses function-auto-ready."""
    obj = composition()
    (step,) = obj["spec"]["pipeline"]
    template = step["input"]["inline"]["template"]
    step["input"]["inline"]["template"] = template.replace(
        'gotemplating.fn.crossplane.io/ready: "True"', 'a: "b"'
    )
    ready = {"step": "ready", "functionRef": {"name": "function-auto-ready"}}
    obj["spec"]["pipeline"] = [step, ready]
    return obj


@pytest.mark.parametrize("ready", ["True", "False"], ids=["ready", "not ready"])
def test_a_poll_happens_at_its_interval_and_not_earlier(ready: str) -> None:
    harness = started(REVISIONS._replace(poll_seconds=60.0))
    clock = harness.clock
    assert isinstance(clock, FakeClock)
    obj = composition()
    inline = obj["spec"]["pipeline"][0]["input"]["inline"]
    inline["template"] = inline["template"].replace('ready: "True"', f'ready: "{ready}"')
    harness.apply(obj)
    # A bucket without a Composition would be retried with backoff instead.
    harness.until_idle()
    harness.apply(bucket())

    def reconciles() -> float:
        return float(harness.metrics.passes.labels("CompositeResource", "done")._value.get())

    try:
        harness.until(lambda: harness.condition("Ready").get("status") == ready)
        harness.until_idle()
        before = reconciles()
        clock.advance(59.0)
        harness.until_idle()
        assert reconciles() == before
        clock.advance(1.0)
        harness.until(lambda: reconciles() > before)
    finally:
        harness.close()


def test_failed_reconciles_are_retried_with_backoff(harness: Harness) -> None:
    clock = harness.clock
    assert isinstance(clock, FakeClock)
    harness.apply(bucket())
    until_it_failed(harness)

    def failures() -> int:
        return sum("ComposeResources" in event for event in harness.events)

    def next_failure() -> float:
        before, began = failures(), clock.monotonic()
        while failures() == before:
            clock.advance(0.25)
            harness.until_idle()
        return clock.monotonic() - began

    # The first failure may come early, or after two reconciles in a row.
    next_failure()
    waits = [next_failure() for _ in range(3)]
    assert waits[0] >= 1.0
    assert all(later >= 2 * sooner - 0.5 for sooner, later in pairwise(waits))
