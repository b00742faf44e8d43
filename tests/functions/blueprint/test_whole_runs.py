"""Whole runs of the functions that run commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.actionsets.outcomes import Outcome
from kanister_py.core.actionsets.status import Status
from kanister_py.core.kube.resources import PODS
from kanister_py.executor.run.background import Run
from kanister_py.ports.cluster import Cluster, EventType
from kanister_py.runs import RunSettings, resume_run, run_actionset
from tests.contracts.pods import exec_in
from tests.functions.blueprint.conftest import World, is_running

Phase = Mapping[str, Any]


def task(name: str, text: str, **rest: Any) -> Phase:
    args = {"namespace": "default", "image": "busybox", "command": ["sh", "-c", text]}
    return {"func": "KubeTask", "name": name, "args": {**args, **rest.pop("args", {})}, **rest}


def started(
    *phases: Phase, deferred: Phase | None = None, settings: RunSettings | None = None
) -> Run:
    action: dict[str, Any] = {"phases": [*phases]}
    if deferred is not None:
        action["deferPhase"] = deferred
    blueprint = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "tasks", "namespace": "default"},
        "actions": {"go": action},
    }
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "go", "namespace": "default"},
        "spec": {
            "actions": [
                {
                    "name": "go",
                    "blueprint": "tasks",
                    "object": {"kind": "Namespace", "name": "default", "namespace": "default"},
                }
            ]
        },
    }
    return run_actionset(actionset, [blueprint], settings or RunSettings(pods="processes"))


def run(*phases: Phase, deferred: Phase | None = None) -> Run:
    return started(*phases, deferred=deferred).wait(180)


def phases(done: Run) -> Sequence[Mapping[str, Any]]:
    listed_phases: Sequence[Mapping[str, Any]] = done.status["actions"][0]["phases"]
    return listed_phases


def test_a_later_phase_reads_what_an_earlier_one_printed() -> None:
    done = run(
        task("first", "kando output n 1"),
        task(
            "second", "kando output twice {{ .Phases.first.Output.n }}{{ .Phases.first.Output.n }}"
        ),
    )
    assert done.status["state"] == "complete"
    assert [phase["output"] for phase in phases(done)] == [{"n": "1"}, {"twice": "11"}]


def test_an_error_says_the_exit_code_and_the_last_lines() -> None:
    done = run(task("first", "echo out of tape; exit 3"))
    error = done.status["error"]
    assert (error["reason"], error["phase"], error["exitCode"]) == ("CommandFailed", "first", 3)
    assert error["logTail"] == ["out of tape"]


def test_a_deferred_phase_sees_what_a_failed_command_had_printed() -> None:
    done = run(
        task("first", "kando output made /backups/7; exit 1", funcVersion="v0.1.0"),
        deferred=task("tidy", "kando output removed {{ .Phases.first.Output.made }}"),
    )
    assert done.status["state"] == "failed"
    assert phases(done)[0]["output"] == {"made": "/backups/7"}
    assert done.status["actions"][0]["deferPhase"]["output"] == {"removed": "/backups/7"}


def test_a_version_that_promises_no_such_thing_leaves_nothing() -> None:
    done = run(
        task("first", "kando output made /backups/7; exit 1", funcVersion="v0.0.0"),
        deferred=task("tidy", "kando output removed {{ .Phases.first.Output.made }}"),
    )
    assert "output" not in phases(done)[0]
    assert done.status["actions"][0]["deferPhase"]["state"] == "failed"


@pytest.mark.parametrize("text", ["true", "exit 1", "echo '###Phase-output###: {'"])
def test_when_a_run_is_over_no_pod_is_left(world: World, text: str) -> None:
    done = started(task("only", text), settings=RunSettings(cluster=world.cluster)).wait(180)
    assert done.status["state"] in {"complete", "failed"}
    assert world.cluster.list(PODS).items == []


def test_a_cancelled_run_leaves_no_pod_and_runs_its_deferred_phase(world: World) -> None:
    going = started(
        task("long", "sleep 600"),
        deferred=task("tidy", "kando output tidied yes"),
        settings=RunSettings(cluster=world.cluster),
    )
    world.seen_pod(is_running)
    going.cancel()
    status = going.wait(180).status
    assert (status["state"], status["error"]["reason"]) == ("failed", "Cancelled")
    assert status["actions"][0]["deferPhase"]["output"] == {"tidied": "yes"}
    assert world.cluster.list(PODS).items == []


class _AtEveryOutcome:
    """Notes which pods there were whenever something was written down."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.seen: dict[str, int] = {}

    def on_outcome(self, outcome: Outcome, status: Status) -> None:
        del status
        self.seen[type(outcome).__name__] = len(self._cluster.list(PODS).items)

    def on_log(self, action: str, phase: str, line: str) -> None:
        pass


def test_a_pod_is_there_until_it_is_written_down_how_its_phase_ended(world: World) -> None:
    eye = _AtEveryOutcome(world.cluster)
    going = started(
        task("long", "sleep 600"), settings=RunSettings(cluster=world.cluster, observer=eye)
    )
    world.seen_pod(is_running)
    going.cancel()
    going.wait(180)
    # Had the process died before that, the next one would have found the pod, and made no other.
    assert eye.seen["PhaseFailed"] == 1
    assert world.cluster.list(PODS).items == []


def test_a_run_that_is_taken_up_follows_the_pod_it_finds(world: World, tmp_path: Path) -> None:
    settings = RunSettings(cluster=world.cluster, state=tmp_path / "state")
    before = world.cluster.list(PODS).resource_version
    go = "until [ -e /tmp/go ]; do sleep 0.05; done"
    text = f"kando output began $(date +%s%N); {go}; kando output done yes"
    first = started(task("long", text), settings=settings)
    name = world.seen_pod(is_running)["metadata"]["name"]
    first.abort()
    first.wait(180)
    assert first.status["state"] == "running"
    assert exec_in(world.cluster, name, "touch", "/tmp/go")[0] == 0
    done = resume_run("", settings).wait(180)
    assert done.status["state"] == "complete"
    assert phases(done)[0]["output"]["done"] == "yes"
    with world.cluster.watch(PODS, resource_version=before, timeout_seconds=0.01) as events:
        added = [event for event in events if event.type is EventType.ADDED]
    assert len(added) == 1
    assert world.cluster.list(PODS).items == []


def test_a_command_in_a_pod_of_others_is_not_begun_again(world: World, tmp_path: Path) -> None:
    world.pod_to_go_into("db", "server")
    settings = RunSettings(cluster=world.cluster, state=tmp_path / "state")
    args = {"namespace": "default", "pod": "db", "command": ["sleep", "600"]}
    first = started({"func": "KubeExec", "name": "inside", "args": args}, settings=settings)
    while phases(first)[0]["state"] != "running":
        first.wait(0.01)
    first.abort()
    first.wait(180)
    done = resume_run("", settings).wait(180)
    assert done.status["error"]["reason"] == "Interrupted"
