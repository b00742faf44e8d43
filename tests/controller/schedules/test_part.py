"""Schedules on a controller that lives: its watches, its timer, its end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from kanister_py.core.kube.resources import ACTION_SETS, CUSTOM_RESOURCE_DEFINITIONS
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.schedules.runs import run_of
from kanister_py.core.schedules.status import has_handled
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import KubeObject
from tests.controller.conftest import (
    SetClock,
    World,
    actionset,
    blueprint,
    definitions,
    phase,
    until,
)
from tests.core.schedules.schedules import schedule


def test_a_run_begins_by_itself_and_its_end_is_noted(world: World) -> None:
    world.create(blueprint(phase("Echo")), schedule(schedule="@every 1s"))
    world.controller()

    def has_ended(obj: KubeObject) -> bool:
        status = obj.get("status") or {}
        return bool(status.get("lastSuccessfulTime"))

    found = world.until(has_ended, "nightly", resource=SCHEDULES)
    assert found["status"]["lastSuccessful"].startswith("nightly-")


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def set_world(clock: SetClock) -> Iterator[World]:
    """Give a cluster whose clock may be set, and all others with it."""
    environment = World(MemoryCluster(clock=clock), clock)
    environment.create(*definitions())
    yield environment
    environment.close()


def test_clocks_that_are_set_forward_make_up_for_one_time(
    set_world: World, clock: SetClock
) -> None:
    world = set_world
    world.create(blueprint(phase("Echo")), schedule())
    world.controller()
    world.until(lambda obj: bool(obj.get("status")), "nightly", resource=SCHEDULES)
    now = clock.now()
    last = now.replace(hour=2, minute=0, second=0, microsecond=0) + timedelta(days=4)
    clock.set_by = last + timedelta(minutes=5) - now

    def has_run(obj: KubeObject) -> bool:
        return bool((obj.get("status") or {}).get("lastSuccessfulTime"))

    found = world.until(has_run, "nightly", resource=SCHEDULES)
    assert found["status"]["lastScheduleTime"] == f"{last:%Y-%m-%dT%H:%M:%SZ}"
    assert len(world.cluster.list(ACTION_SETS).items) == 1


def test_the_lock_on_a_time_is_not_collected_before_it_is_noted(world: World) -> None:
    """A run that has ended, and whose maker died before it noted that it had made it."""
    manifest = schedule(schedule="0 2 * * *", suspend=True)
    world.create(blueprint(phase("Echo")), manifest)
    time = datetime(2026, 1, 1, 2, tzinfo=UTC)
    run = {**run_of(manifest, "locked", time)}
    run["spec"] = {**run["spec"], "ttlSecondsAfterFinished": 0}
    free = {**run, "metadata": {**run["metadata"], "name": "free", "labels": {}}}
    away = {"status": {"countsFrom": "2025-01-01T00:00:00Z", "timing": "0 2 * * * UTC 0"}}
    obj = world.cluster.get(SCHEDULES, "nightly", namespace="default")
    noted = {**away["status"], "observedGeneration": obj["metadata"]["generation"]}
    world.cluster.replace_status(
        {**obj, "status": {**noted, "conditions": [{"type": "Suspended", "status": "True"}]}}
    )
    world.create(run)
    world.controller()
    world.until_state("complete", "locked")
    # What ends after it is collected after it.
    world.create(free)
    world.until_gone("free")
    assert world.status("locked")["state"] == "complete"
    obj = world.cluster.get(SCHEDULES, "nightly", namespace="default")
    seen = {**obj["status"], "recentTimes": ["2026-01-01T02:00:00Z"]}
    assert not has_handled(obj, time)
    assert has_handled({**obj, "status": seen}, time)


def test_each_time_runs_once_across_controllers_that_die(world: World) -> None:
    world.create(
        blueprint(phase("Echo")),
        schedule(schedule="@every 1s", historyLimits={"complete": 1000}),
    )
    for number in range(1, 5):
        controller = world.controller(identity="one-pod")
        world.until(partial(_has_run, number), "nightly", resource=SCHEDULES)
        controller.kill()
    actionsets = world.cluster.list(ACTION_SETS).items
    times = [obj["metadata"]["annotations"]["kanister-py.io/scheduled-at"] for obj in actionsets]
    assert len(times) == len(set(times)) > 3


def _has_run(times: int, obj: KubeObject) -> bool:
    return len((obj.get("status") or {}).get("recentTimes", [])) > times


def test_a_cluster_without_schedules_is_served_all_the_same(world: World) -> None:
    world.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, "schedules.kanister-py.io")
    controller = world.controller()
    world.create(blueprint(phase("Echo")), actionset())
    world.until_state("complete")
    (why,) = [check() for check in controller.checks().values()]
    assert why == ""


def test_the_numbers_of_a_schedule_say_whether_it_can_run_and_how_old_its_last_success_is(
    world: World,
) -> None:
    world.create(schedule(schedule="0 2 * * 1-5"))
    controller = world.controller()
    value = controller.metrics.registry.get_sample_value
    about = {"namespace": "default", "schedule": "nightly"}

    def interval() -> float | None:
        return value("kanister_py_schedule_interval_seconds", about)

    until(lambda: interval() is not None)
    # From Friday to Monday.
    assert interval() == timedelta(days=3).total_seconds()
    samples = [
        sample
        for family in controller.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "kanister_py_schedule_last_success_timestamp_seconds"
    ]
    created = world.cluster.get(SCHEDULES, "nightly", namespace="default")["metadata"]
    assert {sample.value for sample in samples} == {
        datetime.fromisoformat(created["creationTimestamp"]).timestamp()
    }
    for spec, reason in (({"suspend": True}, "Suspended"), ({"schedule": "0 25 * * *"}, "Invalid")):
        world.cluster.patch(SCHEDULES, "nightly", {"spec": spec}, namespace="default")
        seen = {**about, "reason": reason}
        until(lambda: value("kanister_py_schedule_not_ready", seen) == 1.0)  # noqa: B023 # called at once
    assert value("kanister_py_schedule_not_ready", {**about, "reason": "Suspended"}) is None
    world.cluster.delete(SCHEDULES, "nightly", namespace="default")
    until(lambda: value("kanister_py_schedule_not_ready", seen) is None)
