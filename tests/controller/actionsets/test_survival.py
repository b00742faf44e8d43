"""Survival of runs: the controller dies at any of its writes, and nothing is lost."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.actionsets.projection import CONCURRENCY_KEY
from kanister_py.controller.machine.lease import LeaseTerms
from kanister_py.core.actionsets.creation import RETRY_OF
from kanister_py.core.errors import TransientError
from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS, CONFIG_MAPS, PODS, SECRETS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.controller.conftest import (
    PATIENCE_SECONDS,
    Counted,
    Mortal,
    SetClock,
    World,
    actionset,
    blueprint,
    definitions,
    phase,
)

ONCE_TWICE_AND_TIDY = blueprint(
    phase("Once", "first", args={"name": "first"}),
    phase("Once", "second", args={"name": "second"}),
    deferred=phase("Once", "tidy", args={"name": "tidy"}),
    outputArtifacts={"made": {"keyValue": {"by": "{{ .Phases.second.Output.adopted }}"}}},
)
# Three maps, the status five times, and the finalizer twice; on definitions without a
# subresource it comes with the first status.
WRITES_OF_THAT_RUN = {"ours": 10, "kanisters": 9}


def made_by(world: World) -> list[str]:
    config_maps = world.cluster.list(CONFIG_MAPS, label_selector="made-by=once").items
    return sorted(obj["metadata"]["name"].partition("-")[0] for obj in config_maps)


BOTH_DEFINITIONS = pytest.mark.parametrize("world", ["ours", "kanisters"], indirect=True)


@pytest.mark.parametrize("is_lost", [True, False], ids=["write is lost", "write is made"])
@pytest.mark.parametrize(
    ("world", "writes"),
    [
        (form, number)
        for form, writes in WRITES_OF_THAT_RUN.items()
        for number in range(1, writes + 1)
    ],
    indirect=["world"],
)
def test_a_run_goes_on_wherever_the_controller_died(
    world: World, writes: int, is_lost: bool
) -> None:
    world.create(ONCE_TWICE_AND_TIDY, actionset())
    mortal = Mortal(world.cluster, writes, before=is_lost)
    first = world.controller(mortal, identity="one-pod")
    assert mortal.died.wait(PATIENCE_SECONDS)
    first.kill()
    world.controller(identity="one-pod")
    status = world.until_state("complete")
    assert made_by(world) == ["first", "second", "tidy"]
    assert [each["attempt"] for each in status["actions"][0]["phases"]] == [1, 1]
    found = world.until(lambda obj: not obj["metadata"].get("finalizers"))
    assert found["status"]["progress"]["percentCompleted"] == "100"


@BOTH_DEFINITIONS
@pytest.mark.parametrize("writes", range(1, 5))
def test_what_cannot_be_done_twice_is_done_once_at_most(world: World, writes: int) -> None:
    world.create(
        blueprint(phase("Counted"), deferred=phase("Once", "tidy", args={"name": "tidy"})),
        actionset(),
    )
    mortal = Mortal(world.cluster, writes, before=True)
    first = world.controller(mortal, identity="one-pod")
    mortal.died.wait(5.0)
    first.kill()
    world.controller(identity="one-pod")
    world.until(lambda obj: (obj.get("status") or {}).get("state") in ("complete", "failed"))
    assert len(Counted.calls) <= 1
    status = world.status()
    if status["state"] == "failed":
        assert status["error"]["reason"] == "Interrupted"
    assert made_by(world) == ["tidy"]


def test_a_run_of_another_controller_is_not_taken_up_but_told(world: World) -> None:
    world.create(blueprint(phase("Once", args={"name": "x"})), actionset())
    left: dict[str, Any] = {
        "state": "running",
        "actions": [
            {
                "name": "act",
                "blueprint": "made-up",
                "object": {},
                "phases": [{"name": "once", "state": "running", "progress": {}}],
                "deferPhase": {"name": "", "state": "", "progress": {}},
            }
        ],
        "error": {"message": ""},
        "progress": {"runningPhase": "once"},
    }
    world.put_status(left)
    world.controller()
    status = world.until_state("failed")
    assert status["error"]["reason"] == "Interrupted"
    assert status["actions"][0]["phases"][0]["state"] == "failed"
    assert made_by(world) == []


def test_a_blueprint_that_is_gone_ends_a_run_that_is_to_be_taken_up(world: World) -> None:
    world.create(blueprint(phase("Gate"), phase("Echo")), actionset())
    first = world.controller(identity="one-pod")
    world.until_state("running")
    first.kill()
    changed = blueprint(phase("Gate", "other"))
    found = world.cluster.list(BLUEPRINTS).items[0]
    world.cluster.replace({**found, "actions": changed["actions"]})
    world.controller(identity="one-pod")
    assert world.until_state("failed")["error"]["reason"] == "BlueprintChanged"


def test_no_pod_of_a_phase_is_left_that_a_restart_has_cut_off(world: World) -> None:
    world.create(blueprint(phase("Leaves")), actionset())
    first = world.controller(identity="one-pod")
    while len(world.cluster.list(PODS).items) < 3:
        time.sleep(0.01)
    first.kill()
    world.controller(identity="one-pod")
    world.until_state("failed")
    world.until(lambda obj: not obj["metadata"].get("finalizers"))
    until = time.monotonic() + PATIENCE_SECONDS
    while world.cluster.list(PODS).items and time.monotonic() < until:
        time.sleep(0.01)
    assert [obj["metadata"]["name"] for obj in world.cluster.list(PODS).items] == []


def test_a_blueprint_that_changes_in_mid_run_changes_nothing(world: World) -> None:
    world.create(blueprint(phase("Gate"), phase("Echo", args={"say": "old"})), actionset())
    world.controller()
    world.until_state("running")
    found = world.cluster.list(BLUEPRINTS).items[0]
    world.cluster.replace({**found, "actions": blueprint(phase("Fails"))["actions"]})
    world.open_gate()
    status = world.until_state("complete")
    assert status["actions"][0]["phases"][1]["output"] == {"said": "old"}


def test_a_retry_takes_over_what_the_first_run_completed(world: World) -> None:
    world.create(
        blueprint(
            phase("Echo", "kept", args={"say": "kept"}),
            phase("Fails", "bad"),
        ),
        actionset("first"),
    )
    world.controller()
    world.until_state("failed", "first")
    found = world.cluster.list(BLUEPRINTS).items[0]
    mended = blueprint(
        phase("Echo", "kept", args={"say": "anew"}),
        phase("Echo", "bad", args={"say": "{{ .Phases.kept.Output.said }}"}),
    )
    world.cluster.replace({**found, "actions": mended["actions"]})
    world.create(actionset("again", metadata={"annotations": {RETRY_OF: "first"}}))
    status = world.until_state("complete", "again")
    assert status["actions"][0]["phases"][1]["output"] == {"said": "kept"}


def test_a_stop_waits_for_what_nobody_could_take_up(world: World) -> None:
    from tests.controller.conftest import Touchy

    world.create(blueprint(phase("Touchy"), phase("Echo")), actionset())
    first = world.controller(identity="one-pod")
    assert Touchy.began.wait(PATIENCE_SECONDS)
    first.request_stop()
    Touchy.gate.set()
    first.stop()
    status = world.status()
    assert status["state"] == "running"
    assert [each["state"] for each in status["actions"][0]["phases"]] == ["complete", "pending"]
    world.controller(identity="one-pod")
    world.until_state("complete")


def test_a_stop_does_not_wait_for_what_can_be_taken_up(world: World) -> None:
    world.create(blueprint(phase("Gate")), actionset())
    first = world.controller()
    world.until_state("running")
    first.stop()
    world.controller()
    world.open_gate()
    assert world.until_state("complete")["actions"][0]["phases"][0]["attempt"] == 1


@pytest.mark.parametrize(
    ("notes", "limits"),
    [
        pytest.param({}, {"workers": 1, "passes": 1}, id="for a worker"),
        pytest.param({CONCURRENCY_KEY: "db"}, {}, id="for each other"),
    ],
)
def test_those_that_wait_when_a_controller_comes_are_served_by_age_whatever_their_names(
    notes: dict[str, str], limits: dict[str, Any]
) -> None:
    clock = SetClock()
    world = World(MemoryCluster(clock=clock), clock)
    world.create(*definitions(), blueprint(phase("Echo")))
    names = ["m", "z", "a", "y", "b"]
    for hours, name in enumerate(names):
        clock.set_by = timedelta(hours=hours - 10)
        world.create(actionset(name, metadata={"annotations": notes}))
    clock.set_by = timedelta()
    before = world.cluster.list(ACTION_SETS).resource_version
    world.controller(**limits)
    assert _ends(world, len(names), before) == names
    world.close()


def _ends(world: World, count: int, since: str) -> list[str]:
    """Wait until so many ActionSets have ended, and name them in that order."""
    ended: dict[str, None] = {}
    with world.cluster.watch(
        ACTION_SETS, resource_version=since, timeout_seconds=PATIENCE_SECONDS
    ) as watch:
        for event in watch:
            if (event.object.get("status") or {}).get("state") == "complete":
                ended[event.object["metadata"]["name"]] = None
            if len(ended) == count:
                break
    return list(ended)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(-10, 10, id="the next one is twenty minutes ahead"),
        pytest.param(10, -10, id="the next one is twenty minutes behind"),
    ],
)
def test_replicas_whose_clocks_differ_go_on_with_each_others_runs(
    first: int, second: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(MemoryCluster(clock=SystemClock()), SystemClock())
    failing = phase("Fails", retry={"limit": 1, "backoff": "10s", "on": ["FunctionFailed"]})
    world.create(
        *definitions(),
        blueprint(phase("Gate", timeout="5m"), name="gated"),
        blueprint(failing, name="failing"),
    )
    try:
        replicas = []
        for minutes in (first, second):
            skewed = SetClock()
            skewed.set_by = timedelta(minutes=minutes)
            world.clock = skewed
            replicas.append(world.controller(stands_by=True, terms=LeaseTerms()))
            if minutes == first:
                world.create(actionset("gated", blueprint="gated"))
                world.create(actionset("failing", blueprint="failing"))
                world.until_state("running", "gated")
                world.until(lambda obj: "retryTime" in str(obj.get("status")), "failing")
        replicas[0].kill()
        status = world.until_state("failed", "failing")
        assert status["actions"][0]["phases"][0]["attempt"] == 2
        world.open_gate()
        world.until_state("complete", "gated")
        assert "differs from the API server's by" in caplog.text
    finally:
        world.close()


class Silent:
    """A cluster that does not answer for Secrets."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def get(self, resource: Any, name: str, **options: Any) -> Any:
        if resource == SECRETS:
            raise TransientError("it does not answer")
        return self._cluster.get(resource, name, **options)


def test_a_run_that_was_suspended_before_it_acted_is_taken_up(world: World) -> None:
    reference = {"kind": "Secret", "name": "slow", "namespace": "default"}
    world.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "slow", "namespace": "default"},
        },
        blueprint(phase("Echo")),
        actionset(action={"secrets": {"slow": reference}}),
    )
    first = world.controller(Silent(world.cluster), identity="one-pod")
    while not first.active_runs:
        time.sleep(0.01)
    world.cluster.patch(ACTION_SETS, "one", {"spec": {"suspend": True}}, namespace="default")
    world.until_state("running")
    first.kill()
    world.controller(identity="one-pod")
    world.cluster.patch(ACTION_SETS, "one", {"spec": {"suspend": False}}, namespace="default")
    world.until(lambda obj: obj["status"]["state"] in ("failed", "complete"))
    status = world.status()
    assert status["state"] == "complete", status["error"]
