"""Runs of a controller that dies at any of its writes are resumed without loss."""

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
    Environment,
    Mortal,
    SetClock,
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


def made_by(env: Environment) -> list[str]:
    config_maps = env.cluster.list(CONFIG_MAPS, label_selector="made-by=once").items
    return sorted(obj["metadata"]["name"].partition("-")[0] for obj in config_maps)


BOTH_DEFINITIONS = pytest.mark.parametrize("env", ["ours", "kanisters"], indirect=True)


@pytest.mark.parametrize("is_lost", [True, False], ids=["write is lost", "write is made"])
@pytest.mark.parametrize(
    ("env", "writes"),
    [
        (form, number)
        for form, writes in WRITES_OF_THAT_RUN.items()
        for number in range(1, writes + 1)
    ],
    indirect=["env"],
)
def test_a_run_is_resumed_after_the_controller_dies_at_any_write(
    env: Environment, writes: int, is_lost: bool
) -> None:
    env.create(ONCE_TWICE_AND_TIDY, actionset())
    mortal = Mortal(env.cluster, writes, before=is_lost)
    first = env.controller(mortal, identity="one-pod")
    assert mortal.died.wait(PATIENCE_SECONDS)
    first.kill()
    env.controller(identity="one-pod")
    status = env.until_state("complete")
    assert made_by(env) == ["first", "second", "tidy"]
    assert [entry["attempt"] for entry in status["actions"][0]["phases"]] == [1, 1]
    ended = env.until(lambda obj: not obj["metadata"].get("finalizers"))
    assert ended["status"]["progress"]["percentCompleted"] == "100"


@BOTH_DEFINITIONS
@pytest.mark.parametrize("writes", range(1, 5))
def test_a_phase_that_must_not_repeat_runs_at_most_once(env: Environment, writes: int) -> None:
    env.create(
        blueprint(phase("Counted"), deferred=phase("Once", "tidy", args={"name": "tidy"})),
        actionset(),
    )
    mortal = Mortal(env.cluster, writes, before=True)
    first = env.controller(mortal, identity="one-pod")
    mortal.died.wait(5.0)
    first.kill()
    env.controller(identity="one-pod")
    env.until(lambda obj: (obj.get("status") or {}).get("state") in ("complete", "failed"))
    assert len(Counted.calls) <= 1
    status = env.status()
    if status["state"] == "failed":
        assert status["error"]["reason"] == "Interrupted"
    assert made_by(env) == ["tidy"]


def test_a_run_of_kanisters_controller_fails_with_its_reason(env: Environment) -> None:
    env.create(blueprint(phase("Once", args={"name": "x"})), actionset())
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
    env.put_status(left)
    env.controller()
    status = env.until_state("failed")
    assert status["error"]["reason"] == "Interrupted"
    assert status["actions"][0]["phases"][0]["state"] == "failed"
    assert made_by(env) == []


def test_a_run_whose_blueprint_is_gone_fails_instead_of_being_resumed(env: Environment) -> None:
    env.create(blueprint(phase("Gate"), phase("Echo")), actionset())
    first = env.controller(identity="one-pod")
    env.until_state("running")
    first.kill()
    changed = blueprint(phase("Gate", "other"))
    stored = env.cluster.list(BLUEPRINTS).items[0]
    env.cluster.replace({**stored, "actions": changed["actions"]})
    env.controller(identity="one-pod")
    assert env.until_state("failed")["error"]["reason"] == "BlueprintChanged"


def test_pods_of_a_phase_that_a_restart_interrupted_are_deleted(env: Environment) -> None:
    env.create(blueprint(phase("Leaves")), actionset())
    first = env.controller(identity="one-pod")
    while len(env.cluster.list(PODS).items) < 3:
        time.sleep(0.01)
    first.kill()
    env.controller(identity="one-pod")
    env.until_state("failed")
    env.until(lambda obj: not obj["metadata"].get("finalizers"))
    until = time.monotonic() + PATIENCE_SECONDS
    while env.cluster.list(PODS).items and time.monotonic() < until:
        time.sleep(0.01)
    assert [obj["metadata"]["name"] for obj in env.cluster.list(PODS).items] == []


def test_changing_a_blueprint_does_not_affect_active_runs(env: Environment) -> None:
    env.create(blueprint(phase("Gate"), phase("Echo", args={"say": "old"})), actionset())
    env.controller()
    env.until_state("running")
    stored = env.cluster.list(BLUEPRINTS).items[0]
    env.cluster.replace({**stored, "actions": blueprint(phase("Fails"))["actions"]})
    env.open_gate()
    status = env.until_state("complete")
    assert status["actions"][0]["phases"][1]["output"] == {"said": "old"}


def test_a_retry_keeps_the_completed_phases_of_the_first_run(env: Environment) -> None:
    env.create(
        blueprint(
            phase("Echo", "kept", args={"say": "kept"}),
            phase("Fails", "bad"),
        ),
        actionset("first"),
    )
    env.controller()
    env.until_state("failed", "first")
    stored = env.cluster.list(BLUEPRINTS).items[0]
    mended = blueprint(
        phase("Echo", "kept", args={"say": "anew"}),
        phase("Echo", "bad", args={"say": "{{ .Phases.kept.Output.said }}"}),
    )
    env.cluster.replace({**stored, "actions": mended["actions"]})
    env.create(actionset("again", metadata={"annotations": {RETRY_OF: "first"}}))
    status = env.until_state("complete", "again")
    assert status["actions"][0]["phases"][1]["output"] == {"said": "kept"}


def test_a_stop_waits_for_phases_that_cannot_be_resumed(env: Environment) -> None:
    from tests.controller.conftest import Touchy

    env.create(blueprint(phase("Touchy"), phase("Echo")), actionset())
    first = env.controller(identity="one-pod")
    assert Touchy.began.wait(PATIENCE_SECONDS)
    first.request_stop()
    Touchy.gate.set()
    first.stop()
    status = env.status()
    assert status["state"] == "running"
    assert [entry["state"] for entry in status["actions"][0]["phases"]] == ["complete", "pending"]
    env.controller(identity="one-pod")
    env.until_state("complete")


def test_a_stop_does_not_wait_for_phases_that_can_be_resumed(env: Environment) -> None:
    env.create(blueprint(phase("Gate")), actionset())
    first = env.controller()
    env.until_state("running")
    first.stop()
    env.controller()
    env.open_gate()
    assert env.until_state("complete")["actions"][0]["phases"][0]["attempt"] == 1


@pytest.mark.parametrize(
    ("notes", "limits"),
    [
        pytest.param({}, {"workers": 1, "passes": 1}, id="for a worker"),
        pytest.param({CONCURRENCY_KEY: "db"}, {}, id="for each other"),
    ],
)
def test_waiting_actionsets_are_started_by_age_and_not_by_name(
    notes: dict[str, str], limits: dict[str, Any]
) -> None:
    clock = SetClock()
    env = Environment(MemoryCluster(clock=clock), clock)
    env.create(*definitions(), blueprint(phase("Echo")))
    names = ["m", "z", "a", "y", "b"]
    for hours, name in enumerate(names):
        clock.set_by = timedelta(hours=hours - 10)
        env.create(actionset(name, metadata={"annotations": notes}))
    clock.set_by = timedelta()
    before = env.cluster.list(ACTION_SETS).resource_version
    env.controller(**limits)
    assert _ends(env, len(names), before) == names
    env.close()


def _ends(env: Environment, count: int, since: str) -> list[str]:
    """Wait until this many ActionSets have ended; return their names in that order."""
    ended: dict[str, None] = {}
    with env.cluster.watch(
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
def test_replicas_with_different_clocks_resume_each_others_runs(
    first: int, second: int, caplog: pytest.LogCaptureFixture
) -> None:
    env = Environment(MemoryCluster(clock=SystemClock()), SystemClock())
    failing = phase("Fails", retry={"limit": 1, "backoff": "10s", "on": ["FunctionFailed"]})
    env.create(
        *definitions(),
        blueprint(phase("Gate", timeout="5m"), name="gated"),
        blueprint(failing, name="failing"),
    )
    try:
        replicas = []
        for minutes in (first, second):
            skewed = SetClock()
            skewed.set_by = timedelta(minutes=minutes)
            env.clock = skewed
            replicas.append(env.controller(stands_by=True, terms=LeaseTerms()))
            if minutes == first:
                env.create(actionset("gated", blueprint="gated"))
                env.create(actionset("failing", blueprint="failing"))
                env.until_state("running", "gated")
                env.until(lambda obj: "retryTime" in str(obj.get("status")), "failing")
        replicas[0].kill()
        status = env.until_state("failed", "failing")
        assert status["actions"][0]["phases"][0]["attempt"] == 2
        env.open_gate()
        env.until_state("complete", "gated")
        assert "differs from the API server's by" in caplog.text
    finally:
        env.close()


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


def test_a_run_that_was_suspended_before_its_first_phase_is_resumed(env: Environment) -> None:
    reference = {"kind": "Secret", "name": "slow", "namespace": "default"}
    env.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "slow", "namespace": "default"},
        },
        blueprint(phase("Echo")),
        actionset(action={"secrets": {"slow": reference}}),
    )
    first = env.controller(Silent(env.cluster), identity="one-pod")
    while not first.active_runs:
        time.sleep(0.01)
    env.cluster.patch(ACTION_SETS, "one", {"spec": {"suspend": True}}, namespace="default")
    env.until_state("running")
    first.kill()
    env.controller(identity="one-pod")
    env.cluster.patch(ACTION_SETS, "one", {"spec": {"suspend": False}}, namespace="default")
    env.until(lambda obj: obj["status"]["state"] in ("failed", "complete"))
    status = env.status()
    assert status["state"] == "complete", status["error"]
