"""Requests: what one ActionSet costs the API server."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, Semaphore
from typing import Any, cast

import pytest

from kanister_py.controller.actionsets.planner import Planner
from kanister_py.core.errors import Forbidden
from kanister_py.core.kube.resources import ACTION_SETS, EVENTS, NAMESPACES
from kanister_py.ports.cluster import Cluster
from tests.controller.conftest import (
    PATIENCE_SECONDS,
    World,
    actionset,
    blueprint,
    phase,
    until,
)
from tests.fake_clock import FakeClock

_REQUESTS = (
    "get",
    "list",
    "create",
    "replace",
    "replace_status",
    "patch",
    "apply",
    "delete",
)


class Counting:
    """A cluster that writes down what is asked of it, but for Leases."""

    def __init__(self, cluster: Cluster, *, refuses_lists_of: Any = None) -> None:
        self._cluster = cluster
        self._refused = refuses_lists_of
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._cluster, name)
        if name not in _REQUESTS:
            return attribute

        def call(*args: Any, **options: Any) -> Any:
            if name == "list" and args[0] == self._refused:
                raise Forbidden("namespaces is forbidden")
            of = args[0]
            kind = of["kind"] if isinstance(of, Mapping) else of.resource
            if kind not in ("Lease", "leases"):
                self.asked.append(f"{name} {kind}")
            return attribute(*args, **options)

        return call


def cost_of_one(world: World, cluster: Counting) -> list[str]:
    """Give the requests of an ActionSet that is not the first one."""
    world.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        blueprint(phase("Echo")),
    )
    controller = world.controller(cluster)
    acts_on = {"object": {"kind": "Namespace", "name": "shop", "namespace": ""}}
    world.create(actionset("first", action=acts_on))
    until_last_event(world, "first")
    # What the other parts of the controller list at their start is no cost of the second.
    until(lambda: controller.is_settled)
    cluster.asked.clear()
    world.create(actionset("second", action=acts_on))
    until_last_event(world, "second")
    controller.stop()
    return sorted(cluster.asked)


def until_last_event(world: World, name: str) -> None:
    """Wait for the last event of an ActionSet, which is the last that is asked for it."""
    with world.cluster.watch(
        EVENTS, namespace="default", timeout_seconds=PATIENCE_SECONDS
    ) as watch:
        for event in watch:
            of = event.object["involvedObject"]["name"]
            if (of, event.object["reason"]) == (name, "Update Complete"):
                return
    raise AssertionError(f"nothing was told of the end of {name}")


def test_an_action_set_of_one_phase_costs_no_more_than_it_must(world: World) -> None:
    assert cost_of_one(world, Counting(world.cluster)) == [
        "create Event",
        "create Event",
        "get blueprints",
        "replace_status ActionSet",
        "replace_status ActionSet",
    ]


def test_where_namespaces_may_not_be_listed_they_are_read(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = Counting(world.cluster, refuses_lists_of=NAMESPACES)
    assert cost_of_one(world, refusing).count("get namespaces") == 1
    assert "Cannot watch namespaces" not in caplog.text


def test_runs_of_a_burst_share_a_look_at_their_blueprint(world: World) -> None:
    world.create(blueprint(phase("Echo")), *(actionset(f"run-{number}") for number in range(5)))
    first, *later = world.cluster.list(ACTION_SETS, namespace="default").items
    clock, cluster = FakeClock(), Counting(world.cluster)
    planner = Planner(cast("Cluster", cluster), clock, cast("Any", None))
    planner.plan(first, seen_at=-1.0)
    with ThreadPoolExecutor(len(later)) as threads:
        # Seen after the first look, at which their Blueprint may have been an older one.
        planned = [threads.submit(planner.plan, each, 0.0) for each in later]
        assert clock.wait_for_sleepers(len(later))
        assert cluster.asked == ["get blueprints"]
        clock.advance(0.05)
        assert len([future.result() for future in planned]) == len(later)
    assert cluster.asked == ["get blueprints"] * 2


class Slow(Counting):
    """A cluster that answers one request for a Blueprint after the other, when it is let."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.answers = Semaphore(0)

    def __getattr__(self, name: str) -> Any:
        attribute = super().__getattr__(name)

        def get(*args: Any, **options: Any) -> Any:
            try:
                return attribute(*args, **options)
            finally:
                assert self.answers.acquire(timeout=PATIENCE_SECONDS)

        return get if name == "get" else attribute


class WaitedFor(FakeClock):
    """A clock that knows how often was waited for what no time brings."""

    waits = 0

    def wait(self, condition: Condition, timeout_seconds: float | None = None) -> bool:
        self.waits += timeout_seconds is None
        return super().wait(condition, timeout_seconds)


def test_runs_of_a_burst_share_a_look_that_takes_long(world: World) -> None:
    world.create(blueprint(phase("Echo")), *(actionset(f"run-{number}") for number in range(5)))
    seen = world.cluster.list(ACTION_SETS, namespace="default").items
    clock, cluster = WaitedFor(), Slow(world.cluster)
    planner = Planner(cast("Cluster", cluster), clock, cast("Any", None))
    with ThreadPoolExecutor(5) as threads:
        planned = [threads.submit(planner.plan, each, -1.0) for each in seen]
        until(lambda: clock.waits == 4)
        clock.advance(5)
        cluster.answers.release(5)
        assert len([future.result() for future in planned]) == 5
    assert cluster.asked == ["get blueprints"]


def test_runs_of_a_blueprint_that_is_not_there_do_not_wait_for_one_another(world: World) -> None:
    world.create(*(actionset(f"run-{number}") for number in range(8)))
    seen = world.cluster.list(ACTION_SETS, namespace="default").items
    clock, cluster = WaitedFor(), Slow(world.cluster)
    planner = Planner(cast("Cluster", cluster), clock, cast("Any", None))
    with ThreadPoolExecutor(8) as threads:
        planned = [threads.submit(planner.plan, each, -1.0) for each in seen]
        until(lambda: clock.waits == 7)
        cluster.answers.release()
        until(lambda: len(cluster.asked) == 2 and clock.waits == 7 + 6)
        cluster.answers.release()
        until(lambda: len(cluster.asked) == 8)
        cluster.answers.release(6)
        assert {getattr(future.exception(), "reason", "") for future in planned} == {
            "BlueprintNotFound"
        }
