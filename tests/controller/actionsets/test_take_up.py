"""Runs that another process takes up after they were cancelled, deleted, suspended or late.

Each of these may come before a replica takes a run up, while it does so, or after that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Event
from typing import Any, Literal

import pytest

from kanister_py.core.actionsets.stored_status import read_status_data
from kanister_py.core.kube.resources import ACTION_SETS, PODS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.controller.conftest import (
    PATIENCE_SECONDS,
    SetClock,
    World,
    actionset,
    blueprint,
    definitions,
    phase,
)


class Paused:
    """A cluster on which the creation of a pod waits for `go`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.came = Event()
        self.go = Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def create(self, obj: Any, **options: Any) -> Any:
        if obj["kind"] == "Pod":
            self.came.set()
            assert self.go.wait(PATIENCE_SECONDS)
        return self._cluster.create(obj, **options)


def patch_spec(world: World, **spec: Any) -> None:
    world.cluster.patch(ACTION_SETS, "one", {"spec": spec}, namespace="default")


def cancel(world: World) -> None:
    patch_spec(world, cancel=True)


def delete(world: World) -> None:
    world.cluster.delete(ACTION_SETS, "one", namespace="default")


def pods(world: World) -> list[str]:
    return [pod["metadata"]["name"] for pod in world.cluster.list(PODS).items]


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def left(clock: SetClock) -> Iterator[World]:
    """Return a cluster with a run whose process died while a pod of its first phase ran."""
    world = World(MemoryCluster(clock=clock), clock)
    stays = phase("Stays", timeout="1h")
    world.create(
        *definitions(), blueprint(stays, phase("Echo"), deferred=phase("Echo", "tidy")), actionset()
    )
    first = world.controller(identity="one-pod")
    while not pods(world):
        time.sleep(0.01)
    first.kill()
    yield world
    world.close()


Moment = Literal["before", "during", "after"]
MOMENTS: list[Moment] = ["before", "during", "after"]


def take_up(world: World, moment: Moment, act: Callable[[World], None]) -> None:
    """Have another controller take the run up, and `act` before, while or after it does so."""
    if moment == "before":
        act(world)
        world.controller(identity="one-pod")
        return
    paused = Paused(world.cluster)
    if moment == "after":
        paused.go.set()
    world.controller(paused, identity="one-pod")
    assert paused.came.wait(PATIENCE_SECONDS)
    act(world)
    paused.go.set()


def assert_stopped(world: World, reason: str) -> None:
    status = world.until_state("failed")
    (action,) = status["actions"]
    assert status["error"]["reason"] == reason
    assert [each["state"] for each in action["phases"]] == ["failed", "pending"]
    assert action["phases"][0]["attempt"] == 1
    assert action["deferPhase"]["state"] == "complete"
    world.until(lambda obj: not obj["metadata"].get("finalizers"))
    assert pods(world) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_cancelled_run_is_stopped_whenever_it_is_taken_up(left: World, moment: Moment) -> None:
    take_up(left, moment, cancel)
    assert_stopped(left, "Cancelled")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_deleted_run_is_stopped_whenever_it_is_taken_up(left: World, moment: Moment) -> None:
    take_up(left, moment, delete)
    left.until_gone("one")
    assert pods(left) == []


def test_a_cancel_that_the_dead_process_had_noted_stops_the_run(left: World) -> None:
    cancel(left)
    status = left.get()["status"]
    condition = {"type": "CancelAsked", "status": "True", "reason": "Cancelled", "message": ""}
    moment = {"lastTransitionTime": status["actions"][0]["phases"][0]["startTime"]}
    left.put_status({**status, "conditions": [{**condition, **moment}]})
    left.controller(identity="one-pod")
    assert_stopped(left, "Cancelled")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_phase_whose_time_is_over_is_stopped_whenever_its_run_is_taken_up(
    left: World, clock: SetClock, moment: Moment
) -> None:
    # The rest of its time passes while the run is taken up, or soon after that.
    clock.set_by = timedelta(hours=2) if moment == "before" else timedelta(minutes=60, seconds=-1)
    take_up(left, moment, lambda _world: None)
    assert_stopped(left, "PhaseTimedOut")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_suspended_run_ends_its_phase_and_begins_no_other_whenever_it_is_taken_up(
    world: World, moment: Moment
) -> None:
    gate = phase("Gate", args={"gate": "gate"})
    world.create(blueprint(gate, phase("Echo")), actionset())
    first = world.controller(identity="one-pod")
    world.until_state("running")
    first.kill()
    if moment == "before":
        patch_spec(world, suspend=True)
    second = world.controller(identity="one-pod")
    if moment == "after":
        while not second.active_runs:
            time.sleep(0.01)
    if moment != "before":
        patch_spec(world, suspend=True)
    world.until(lambda obj: "Suspended" in str(obj["status"].get("conditions")))
    world.open_gate()
    found = world.until(lambda obj: "complete" in str(obj["status"]["actions"][0]["phases"][0]))
    phases = (read_status_data(found) or {})["actions"][0]["phases"]
    assert [each["state"] for each in phases] == ["complete", "pending"]
    patch_spec(world, suspend=False)
    world.until_state("complete")
