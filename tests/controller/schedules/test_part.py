"""Schedules on a running controller: watches, timers and restarts."""

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
    Environment,
    SetClock,
    actionset,
    blueprint,
    definitions,
    phase,
    until,
)
from tests.core.schedules.schedules import schedule


def test_a_run_starts_when_it_is_due_and_its_end_is_recorded(env: Environment) -> None:
    env.create(blueprint(phase("Echo")), schedule(schedule="@every 1s"))
    env.controller()

    def has_ended(obj: KubeObject) -> bool:
        status = obj.get("status") or {}
        return bool(status.get("lastSuccessfulTime"))

    ended = env.until(has_ended, "nightly", resource=SCHEDULES)
    assert ended["status"]["lastSuccessful"].startswith("nightly-")


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def set_env(clock: SetClock) -> Iterator[Environment]:
    """Return an environment whose clock can be set, for all of its controllers."""
    environment = Environment(MemoryCluster(clock=clock), clock)
    environment.create(*definitions())
    yield environment
    environment.close()


def test_a_clock_that_is_set_forward_causes_one_run(set_env: Environment, clock: SetClock) -> None:
    env = set_env
    env.create(blueprint(phase("Echo")), schedule())
    env.controller()
    env.until(lambda obj: bool(obj.get("status")), "nightly", resource=SCHEDULES)
    now = clock.now()
    last = now.replace(hour=2, minute=0, second=0, microsecond=0) + timedelta(days=4)
    clock.set_by = last + timedelta(minutes=5) - now

    def has_run(obj: KubeObject) -> bool:
        return bool((obj.get("status") or {}).get("lastSuccessfulTime"))

    ran = env.until(has_run, "nightly", resource=SCHEDULES)
    assert ran["status"]["lastScheduleTime"] == f"{last:%Y-%m-%dT%H:%M:%SZ}"
    assert len(env.cluster.list(ACTION_SETS).items) == 1


def test_the_actionset_of_a_due_time_is_kept_until_the_schedule_records_it(
    env: Environment,
) -> None:
    """A run that has ended, and whose creation the dead controller has not recorded."""
    manifest = schedule(schedule="0 2 * * *", suspend=True)
    env.create(blueprint(phase("Echo")), manifest)
    time = datetime(2026, 1, 1, 2, tzinfo=UTC)
    run = {**run_of(manifest, "locked", time)}
    run["spec"] = {**run["spec"], "ttlSecondsAfterFinished": 0}
    free = {**run, "metadata": {**run["metadata"], "name": "free", "labels": {}}}
    away = {"status": {"countsFrom": "2025-01-01T00:00:00Z", "timing": "0 2 * * * UTC 0"}}
    obj = env.cluster.get(SCHEDULES, "nightly", namespace="default")
    noted = {**away["status"], "observedGeneration": obj["metadata"]["generation"]}
    env.cluster.replace_status(
        {**obj, "status": {**noted, "conditions": [{"type": "Suspended", "status": "True"}]}}
    )
    env.create(run)
    env.controller()
    env.until_state("complete", "locked")
    # ActionSets are deleted in the order of their ends.
    env.create(free)
    env.until_gone("free")
    assert env.status("locked")["state"] == "complete"
    obj = env.cluster.get(SCHEDULES, "nightly", namespace="default")
    seen = {**obj["status"], "recentTimes": ["2026-01-01T02:00:00Z"]}
    assert not has_handled(obj, time)
    assert has_handled({**obj, "status": seen}, time)


def test_each_due_time_runs_once_although_controllers_die(env: Environment) -> None:
    env.create(
        blueprint(phase("Echo")),
        schedule(schedule="@every 1s", historyLimits={"complete": 1000}),
    )
    for number in range(1, 5):
        controller = env.controller(identity="one-pod")
        env.until(partial(_has_run, number), "nightly", resource=SCHEDULES)
        controller.kill()
    actionsets = env.cluster.list(ACTION_SETS).items
    times = [obj["metadata"]["annotations"]["kanister-py.io/scheduled-at"] for obj in actionsets]
    assert len(times) == len(set(times)) > 3


def _has_run(times: int, obj: KubeObject) -> bool:
    return len((obj.get("status") or {}).get("recentTimes", [])) > times


def test_actionsets_run_on_a_cluster_without_the_kind_schedule(env: Environment) -> None:
    env.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, "schedules.kanister-py.io")
    controller = env.controller()
    env.create(blueprint(phase("Echo")), actionset())
    env.until_state("complete")
    (why,) = [check() for check in controller.checks().values()]
    assert why == ""


def test_metrics_of_a_schedule_show_readiness_and_the_age_of_the_last_success(
    env: Environment,
) -> None:
    env.create(schedule(schedule="0 2 * * 1-5"))
    controller = env.controller()
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
    created = env.cluster.get(SCHEDULES, "nightly", namespace="default")["metadata"]
    assert {sample.value for sample in samples} == {
        datetime.fromisoformat(created["creationTimestamp"]).timestamp()
    }
    for spec, reason in (({"suspend": True}, "Suspended"), ({"schedule": "0 25 * * *"}, "Invalid")):
        env.cluster.patch(SCHEDULES, "nightly", {"spec": spec}, namespace="default")
        seen = {**about, "reason": reason}
        until(lambda: value("kanister_py_schedule_not_ready", seen) == 1.0)  # noqa: B023 # called at once
    assert value("kanister_py_schedule_not_ready", {**about, "reason": "Suspended"}) is None
    env.cluster.delete(SCHEDULES, "nightly", namespace="default")
    until(lambda: value("kanister_py_schedule_not_ready", seen) is None)
