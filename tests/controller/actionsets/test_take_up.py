"""Runs that are resumed after they were cancelled, deleted, suspended or timed out.

Each of these may come before a replica takes a run up, while it does so, or after that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Event
from typing import Any, Literal, Self

import pytest

from kanister_py.core.actionsets.stored_status import read_status_data
from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS, PODS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.controller.conftest import (
    PATIENCE_SECONDS,
    Environment,
    SetClock,
    actionset,
    blueprint,
    definitions,
    phase,
    until,
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


class DeletedBeforeFirstWrite:
    """A cluster on which an ActionSet is deleted just before its first write.

    With `is_replaced`, another one of the same name is created. `effects` are the kinds of the
    objects that phases create.
    """

    def __init__(self, cluster: MemoryCluster, *, is_replaced: bool) -> None:
        self._cluster = cluster
        self._is_replaced = is_replaced
        self.uid = ""
        self.effects: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def create(self, obj: Any, **options: Any) -> Any:
        if obj["kind"] in ("Pod", "ConfigMap"):
            self.effects.append(obj["kind"])
        return self._cluster.create(obj, **options)

    def patch(self, resource: Any, *args: Any, **options: Any) -> Any:
        if resource == ACTION_SETS:
            self._delete()
        return self._cluster.patch(resource, *args, **options)

    def replace_status(self, obj: Any, **options: Any) -> Any:
        if obj["kind"] == "ActionSet":
            self._delete()
        return self._cluster.replace_status(obj, **options)

    def _delete(self) -> None:
        if self.uid:
            return
        stored = self._cluster.get(ACTION_SETS, "one", namespace="default")
        self.uid = stored["metadata"]["uid"]
        self._cluster.delete(ACTION_SETS, "one", namespace="default")
        if self._is_replaced:
            self._cluster.create(actionset(blueprint="other"))


class ReportedDeletions:
    """A watch that sets an event once the deletion of an object has been processed."""

    def __init__(self, watch: Any, is_processed: Event) -> None:
        self._watch = watch
        self._is_processed = is_processed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watch, name)

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._watch.__exit__(*error)

    def __iter__(self) -> Iterator[Any]:
        for event in self._watch:
            yield event
            if event.type == "DELETED":
                self._is_processed.set()


class DeletedDuringPlanning:
    """A cluster on which an ActionSet is deleted, and the watch reports that, during planning."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._is_processed = Event()
        self.has_run_written = Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def watch(self, resource: Any, **options: Any) -> Any:
        watch = self._cluster.watch(resource, **options)
        return ReportedDeletions(watch, self._is_processed) if resource == ACTION_SETS else watch

    def get(self, resource: Any, *args: Any, **options: Any) -> Any:
        if resource == BLUEPRINTS:
            self._cluster.delete(ACTION_SETS, "one", namespace="default")
            assert self._is_processed.wait(PATIENCE_SECONDS)
        return self._cluster.get(resource, *args, **options)

    def replace_status(self, obj: Any, **options: Any) -> Any:
        if obj["kind"] == "ActionSet":
            self.has_run_written.set()
        return self._cluster.replace_status(obj, **options)


def patch_spec(env: Environment, **spec: Any) -> None:
    env.cluster.patch(ACTION_SETS, "one", {"spec": spec}, namespace="default")


def cancel(env: Environment) -> None:
    patch_spec(env, cancel=True)


def delete(env: Environment) -> None:
    env.cluster.delete(ACTION_SETS, "one", namespace="default")


def pods(env: Environment) -> list[str]:
    return [pod["metadata"]["name"] for pod in env.cluster.list(PODS).items]


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def left(clock: SetClock) -> Iterator[Environment]:
    """Return a cluster with a run whose process died while a pod of its first phase ran."""
    env = Environment(MemoryCluster(clock=clock), clock)
    stays = phase("Stays", timeout="1h")
    env.create(
        *definitions(), blueprint(stays, phase("Echo"), deferred=phase("Echo", "tidy")), actionset()
    )
    first = env.controller(identity="one-pod")
    while not pods(env):
        time.sleep(0.01)
    first.kill()
    yield env
    env.close()


Moment = Literal["before", "during", "after"]
MOMENTS: list[Moment] = ["before", "during", "after"]


def take_up(env: Environment, moment: Moment, act: Callable[[Environment], None]) -> None:
    """Resume the run with another controller, and call `act` before, during or after that."""
    if moment == "before":
        act(env)
        env.controller(identity="one-pod")
        return
    paused = Paused(env.cluster)
    if moment == "after":
        paused.go.set()
    env.controller(paused, identity="one-pod")
    assert paused.came.wait(PATIENCE_SECONDS)
    act(env)
    paused.go.set()


def assert_stopped(env: Environment, reason: str) -> None:
    status = env.until_state("failed")
    (action,) = status["actions"]
    assert status["error"]["reason"] == reason
    assert [entry["state"] for entry in action["phases"]] == ["failed", "pending"]
    assert action["phases"][0]["attempt"] == 1
    assert action["deferPhase"]["state"] == "complete"
    env.until(lambda obj: not obj["metadata"].get("finalizers"))
    assert pods(env) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_cancelled_run_is_stopped_whenever_it_is_resumed(
    left: Environment, moment: Moment
) -> None:
    take_up(left, moment, cancel)
    assert_stopped(left, "Cancelled")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_deleted_run_is_stopped_whenever_it_is_resumed(left: Environment, moment: Moment) -> None:
    take_up(left, moment, delete)
    left.until_gone("one")
    assert pods(left) == []


def test_a_cancellation_recorded_by_the_dead_process_stops_the_run(left: Environment) -> None:
    cancel(left)
    status = left.get()["status"]
    condition = {"type": "CancelAsked", "status": "True", "reason": "Cancelled", "message": ""}
    moment = {"lastTransitionTime": status["actions"][0]["phases"][0]["startTime"]}
    left.put_status({**status, "conditions": [{**condition, **moment}]})
    left.controller(identity="one-pod")
    assert_stopped(left, "Cancelled")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_phase_that_times_out_is_stopped_whenever_its_run_is_resumed(
    left: Environment, clock: SetClock, moment: Moment
) -> None:
    # Its remaining time passes while the run is resumed, or soon after that.
    clock.set_by = timedelta(hours=2) if moment == "before" else timedelta(minutes=60, seconds=-1)
    take_up(left, moment, lambda _world: None)
    assert_stopped(left, "PhaseTimedOut")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_suspended_run_finishes_its_phase_and_starts_no_other_when_it_is_resumed(
    env: Environment, moment: Moment
) -> None:
    gate = phase("Gate", args={"gate": "gate"})
    env.create(blueprint(gate, phase("Echo")), actionset())
    first = env.controller(identity="one-pod")
    env.until_state("running")
    first.kill()
    if moment == "before":
        patch_spec(env, suspend=True)
    second = env.controller(identity="one-pod")
    if moment == "after":
        while not second.active_runs:
            time.sleep(0.01)
    if moment != "before":
        patch_spec(env, suspend=True)
    env.until(lambda obj: "Suspended" in str(obj["status"].get("conditions")))
    env.open_gate()
    completed = env.until(lambda obj: "complete" in str(obj["status"]["actions"][0]["phases"][0]))
    phases = (read_status_data(completed) or {})["actions"][0]["phases"]
    assert [entry["state"] for entry in phases] == ["complete", "pending"]
    patch_spec(env, suspend=False)
    env.until_state("complete")


@pytest.mark.parametrize("env", ["ours", "kanisters"], indirect=True)
@pytest.mark.parametrize("has_cleanup", [True, False], ids=["finalizer", "no finalizer"])
def test_an_actionset_deleted_before_its_first_write_has_no_effects(
    env: Environment, has_cleanup: bool
) -> None:
    tidy = phase("Once", "tidy", args={"name": "tidy"}) if has_cleanup else None
    env.create(blueprint(phase("Leaves"), deferred=tidy), actionset())
    cluster = DeletedBeforeFirstWrite(env.cluster, is_replaced=False)
    controller = env.controller(cluster)
    until(lambda: bool(cluster.uid) and not controller.active_runs)
    assert cluster.effects == []


def test_an_actionset_that_replaced_a_deleted_one_runs_alone(env: Environment) -> None:
    other = blueprint(phase("Once", args={"name": "other"}), name="other")
    env.create(blueprint(phase("Stays")), other, actionset())
    cluster = DeletedBeforeFirstWrite(env.cluster, is_replaced=True)
    env.controller(cluster)
    env.until_state("complete")
    assert cluster.effects == ["ConfigMap"]


def test_a_suspended_actionset_deleted_while_its_run_is_planned_does_not_stay_active(
    env: Environment,
) -> None:
    env.create(blueprint(phase("Echo")), actionset(suspend=True))
    cluster = DeletedDuringPlanning(env.cluster)
    controller = env.controller(cluster)
    assert cluster.has_run_written.wait(PATIENCE_SECONDS)
    until(lambda: not controller.active_runs)
