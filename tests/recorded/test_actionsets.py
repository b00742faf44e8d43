"""ActionSets end here as they end in Kanister, but for errors with a better text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.actionsets.transitions import refused_status
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.resources import PODS
from kanister_py.core.yaml.documents import parse_document, parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.node import ProcessNode
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.executor.phase_context import RUN_LABEL
from kanister_py.ports.cluster import EventType
from kanister_py.runs import RunSettings, run_actionset

RECORDED = Path(os.environ["KANISTER_PY_RECORDED"]) / "actionsets"
CASES = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())

# Kanister's words are those of its own source files or of a Go decoder, or say less than ours
# do: what ours must say instead.
SENSE = {
    "bad-output-line": "Failed to unmarshal key-value pair",
    "extra-arg": "argument bogus is not supported",
    "preferred-bad": "'latest' is not a version",
}

# Kanister runs the phases before one whose template nobody can read. Here nothing runs then.
REFUSED_FIRST = {"template-bad-syntax": ["pending", "failed"]}

# A version without its `v` is the same version here.
OURS_COMPLETES = ("preferred-no-v",)


def read(path: Path) -> Any:
    return parse_document(path.read_bytes(), str(path)).value


class Ended(NamedTuple):
    """How an ActionSet ended, and every pod that it made on its way."""

    status: Mapping[str, Any]
    pods: Sequence[Mapping[str, Any]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MemoryCluster]:
    """A cluster with the objects that all cases share, whose pods are real processes."""
    cluster = MemoryCluster(clock=SystemClock(), default_namespace="kanister")
    for document in parse_documents((RECORDED / "objects.yaml").read_bytes()):
        cluster.create(document.value)
    node = ProcessNode(ProcessPodRunner(SystemClock(), state=tmp_path), SystemClock())
    cluster.attach_pods(node)
    node.start(cluster)
    yield cluster
    node.close()


def ended(case: Path, cluster: MemoryCluster) -> Ended:
    before = cluster.list(PODS).resource_version
    settings = RunSettings(cluster=cluster, namespace="kanister")
    actionset, blueprint = read(case / "actionset.yaml"), read(case / "blueprint.yaml")
    try:
        status = run_actionset(actionset, [blueprint], settings).wait(180).status
    except UsageError as error:
        if error.reason != "ActionNotFound":
            raise
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        status = refused_status(error.message, error.reason, moment).as_dict()
    assert cluster.list(PODS).items == []
    with cluster.watch(PODS, resource_version=before, timeout_seconds=0.01) as events:
        pods = [event.object for event in events if event.type is EventType.ADDED]
    return Ended(status, pods)


def outcome_of(status: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what a user compares: states, outputs, artifacts and percentages."""
    is_complete = status["state"] == "complete"
    return {
        "state": status["state"],
        "percent": status["progress"].get("percentCompleted"),
        "actions": [
            {
                "name": action["name"],
                "blueprint": action["blueprint"],
                "object": action["object"],
                # Of an action that failed they are templates, which nobody can use.
                "artifacts": action.get("artifacts") if is_complete else None,
                "phases": list(map(_phase, action.get("phases", ()))),
                "deferPhase": _phase(action["deferPhase"]),
            }
            for action in status.get("actions", ())
        ],
    }


def _phase(phase: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": phase["name"],
        "state": phase["state"],
        "output": phase.get("output"),
        "percent": phase["progress"].get("progressPercent") if phase["state"] else None,
    }


def without_deferred_percent(outcome: dict[str, Any]) -> dict[str, Any]:
    """Forget what only we tell: how far a deferred phase is."""
    for action in outcome["actions"]:
        del action["deferPhase"]["percent"]
    return outcome


def wanted(name: str) -> Any:
    # Written by a plain YAML writer, to whom `n` and `y` are words.
    return yaml.safe_load((RECORDED / name / "want.yaml").read_bytes())


@pytest.mark.parametrize("name", CASES)
def test_an_actionset_ends_as_it_does_in_kanister(name: str, cluster: MemoryCluster) -> None:
    want = wanted(name)["status"]
    status = ended(RECORDED / name, cluster).status
    if name in OURS_COMPLETES:
        assert (status["state"], want["state"]) == ("complete", "failed")
        return
    if name in REFUSED_FIRST:
        phases = status["actions"][0]["phases"]
        assert [phase["state"] for phase in phases] == REFUSED_FIRST[name]
    else:
        assert without_deferred_percent(outcome_of(status)) == without_deferred_percent(
            outcome_of(want)
        ), status["error"]
    assert has_sense_of(name, want["error"]["message"], status["error"])
    assert "runningPhase" not in status["progress"]


def has_sense_of(name: str, theirs: str, ours: Mapping[str, Any]) -> bool:
    """Say whether our error says what theirs means, their defects left out."""
    message = ours["message"]
    if not theirs:
        return bool(message == "")
    if name in SENSE:
        return SENSE[name] in message
    if exit_code := re.search(r"ExitCode:(\d+)", theirs):
        began = "Failed while waiting for Pod to complete: Pod failed"
        return began in message and bool(ours["exitCode"] == int(exit_code[1]))
    return theirs.removeprefix("null: ").lower() in message.lower()


# What an API server adds of its own, or gives by chance.
SERVERS_OWN = {
    "dnsPolicy",
    "enableServiceLinks",
    "nodeName",
    "preemptionPolicy",
    "priority",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "volumes",
}
SERVERS_OWN_OF_CONTAINERS = {
    "resources",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeMounts",
}


def pod_as_users_know_it(pod: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Keep what a blueprint, an ActionSet or a function said of a pod."""
    metadata, spec = pod["metadata"], pod["spec"]
    assert metadata["name"].startswith(prefix)
    return {
        "namespace": metadata["namespace"],
        "annotations": metadata["annotations"],
        "labels": {key: value for key, value in metadata["labels"].items() if key != RUN_LABEL},
        **{key: value for key, value in spec.items() if key not in SERVERS_OWN},
        "containers": [
            {key: value for key, value in one.items() if key not in SERVERS_OWN_OF_CONTAINERS}
            for one in spec["containers"]
        ],
    }


@pytest.mark.parametrize("name", [case for case in CASES if "pod" in wanted(case)])
def test_a_pod_is_made_as_kanister_makes_it(name: str, cluster: MemoryCluster) -> None:
    want = wanted(name)["pod"]
    (pod,) = ended(RECORDED / name, cluster).pods
    prefix = want["metadata"]["generateName"]
    assert pod_as_users_know_it(pod, prefix) == pod_as_users_know_it(want, prefix)
