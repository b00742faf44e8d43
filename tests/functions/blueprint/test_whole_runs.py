"""What a run makes of the functions that run commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kanister_py.core.objects.resources import PODS
from kanister_py.executor.run_handle import Run
from kanister_py.ports.cluster import Cluster
from kanister_py.wiring import RunSettings, run_actionset
from tests.functions.blueprint.conftest import World

Phase = Mapping[str, Any]


def task(name: str, text: str, **rest: Any) -> Phase:
    args = {"namespace": "default", "image": "busybox", "command": ["sh", "-c", text]}
    return {"func": "KubeTask", "name": name, "args": {**args, **rest.pop("args", {})}, **rest}


def run(*phases: Phase, deferred: Phase | None = None, cluster: Cluster | None = None) -> Run:
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
    pods = "" if cluster is not None else "processes"
    settings = RunSettings(cluster=cluster, pods=pods, namespace="default")
    return run_actionset(actionset, [blueprint], settings).wait(60)


def phases(done: Run) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = done.status["actions"][0]["phases"]
    return found


def test_a_later_phase_reads_what_an_earlier_one_printed() -> None:
    done = run(
        task("first", "kando output n 1"),
        task(
            "second", "kando output twice {{ .Phases.first.Output.n }}{{ .Phases.first.Output.n }}"
        ),
    )
    assert done.status["state"] == "complete"
    assert [each["output"] for each in phases(done)] == [{"n": "1"}, {"twice": "11"}]


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
    done = run(task("only", text), cluster=world.cluster)
    assert done.status["state"] in {"complete", "failed"}
    assert world.cluster.list(PODS).items == []
