"""Complete runs with functions that run commands."""

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
from tests.functions.blueprint.conftest import Harness, is_running

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


def test_later_phase_reads_outputs_of_an_earlier_one() -> None:
    done = run(
        task("first", "kando output n 1"),
        task(
            "second", "kando output twice {{ .Phases.first.Output.n }}{{ .Phases.first.Output.n }}"
        ),
    )
    assert done.status["state"] == "complete"
    assert [phase["output"] for phase in phases(done)] == [{"n": "1"}, {"twice": "11"}]


def test_error_has_exit_code_and_last_lines() -> None:
    done = run(task("first", "echo out of tape; exit 3"))
    error = done.status["error"]
    assert (error["reason"], error["phase"], error["exitCode"]) == ("CommandFailed", "first", 3)
    assert error["logTail"] == ["out of tape"]


def test_deferred_phase_reads_outputs_of_a_failed_command() -> None:
    done = run(
        task("first", "kando output made /backups/7; exit 1", funcVersion="v0.1.0"),
        deferred=task("tidy", "kando output removed {{ .Phases.first.Output.made }}"),
    )
    assert done.status["state"] == "failed"
    assert phases(done)[0]["output"] == {"made": "/backups/7"}
    assert done.status["actions"][0]["deferPhase"]["output"] == {"removed": "/backups/7"}


def test_failed_command_of_v0_0_0_has_no_outputs() -> None:
    done = run(
        task("first", "kando output made /backups/7; exit 1", funcVersion="v0.0.0"),
        deferred=task("tidy", "kando output removed {{ .Phases.first.Output.made }}"),
    )
    assert "output" not in phases(done)[0]
    assert done.status["actions"][0]["deferPhase"]["state"] == "failed"


@pytest.mark.parametrize("text", ["true", "exit 1", "echo '###Phase-output###: {'"])
def test_no_pod_remains_after_a_run(harness: Harness, text: str) -> None:
    done = started(task("only", text), settings=RunSettings(cluster=harness.cluster)).wait(180)
    assert done.status["state"] in {"complete", "failed"}
    assert harness.cluster.list(PODS).items == []


def test_cancelled_run_deletes_its_pod_and_runs_the_deferred_phase(harness: Harness) -> None:
    going = started(
        task("long", "sleep 600"),
        deferred=task("tidy", "kando output tidied yes"),
        settings=RunSettings(cluster=harness.cluster),
    )
    harness.seen_pod(is_running)
    going.cancel()
    status = going.wait(180).status
    assert (status["state"], status["error"]["reason"]) == ("failed", "Cancelled")
    assert status["actions"][0]["deferPhase"]["output"] == {"tidied": "yes"}
    assert harness.cluster.list(PODS).items == []


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


def test_pod_exists_until_the_outcome_is_recorded(harness: Harness) -> None:
    eye = _AtEveryOutcome(harness.cluster)
    going = started(
        task("long", "sleep 600"), settings=RunSettings(cluster=harness.cluster, observer=eye)
    )
    harness.seen_pod(is_running)
    going.cancel()
    going.wait(180)
    # If the process had died before, the next one would have found the pod and created no other.
    assert eye.seen["PhaseFailed"] == 1
    assert harness.cluster.list(PODS).items == []


def test_resumed_run_follows_its_existing_pod(harness: Harness, tmp_path: Path) -> None:
    settings = RunSettings(cluster=harness.cluster, state=tmp_path / "state")
    before = harness.cluster.list(PODS).resource_version
    go = "until [ -e /tmp/go ]; do sleep 0.05; done"
    text = f"kando output began $(date +%s%N); {go}; kando output done yes"
    first = started(task("long", text), settings=settings)
    name = harness.seen_pod(is_running)["metadata"]["name"]
    first.abort()
    first.wait(180)
    assert first.status["state"] == "running"
    assert exec_in(harness.cluster, name, "touch", "/tmp/go")[0] == 0
    done = resume_run("", settings).wait(180)
    assert done.status["state"] == "complete"
    assert phases(done)[0]["output"]["done"] == "yes"
    with harness.cluster.watch(PODS, resource_version=before, timeout_seconds=0.01) as events:
        added = [event for event in events if event.type is EventType.ADDED]
    assert len(added) == 1
    assert harness.cluster.list(PODS).items == []


def test_command_in_an_existing_pod_is_not_repeated(harness: Harness, tmp_path: Path) -> None:
    harness.pod_to_go_into("db", "server")
    settings = RunSettings(cluster=harness.cluster, state=tmp_path / "state")
    args = {"namespace": "default", "pod": "db", "command": ["sleep", "600"]}
    first = started({"func": "KubeExec", "name": "inside", "args": args}, settings=settings)
    while phases(first)[0]["state"] != "running":
        first.wait(0.01)
    first.abort()
    first.wait(180)
    done = resume_run("", settings).wait(180)
    assert done.status["error"]["reason"] == "Interrupted"
