"""ActionSets end as they do in Kanister, except for the text of errors."""

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

# Kanister's messages name its source files, come from a Go decoder, or say less than ours.
# These texts must be part of our messages instead.
EXPECTED_TEXTS = {
    "bad-output-line": "Failed to unmarshal key-value pair",
    "extra-arg": "argument bogus is not supported",
    "preferred-bad": "'latest' is not a version",
}

# Kanister runs the phases before one with an invalid template. We run no phase then.
REFUSED_FIRST = {"template-bad-syntax": ["pending", "failed"]}

# We accept a version without its `v`.
COMPLETES_HERE = ("preferred-no-v",)


def read(path: Path) -> Any:
    return parse_document(path.read_bytes(), str(path)).value


class Result(NamedTuple):
    """Final status of an ActionSet, and the pods that it created."""

    status: Mapping[str, Any]
    pods: Sequence[Mapping[str, Any]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MemoryCluster]:
    """A cluster with the objects of all cases; pods run as processes."""
    cluster = MemoryCluster(clock=SystemClock(), default_namespace="kanister")
    for document in parse_documents((RECORDED / "objects.yaml").read_bytes()):
        cluster.create(document.value)
    node = ProcessNode(ProcessPodRunner(SystemClock(), state=tmp_path), SystemClock())
    cluster.attach_pods(node)
    node.start(cluster)
    yield cluster
    node.close()


def run_case(case: Path, cluster: MemoryCluster) -> Result:
    version = cluster.list(PODS).resource_version
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
    with cluster.watch(PODS, resource_version=version, timeout_seconds=0.01) as events:
        pods = [event.object for event in events if event.type is EventType.ADDED]
    return Result(status, pods)


def outcome_of(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields to compare: states, outputs, artifacts and percentages."""
    is_complete = status["state"] == "complete"
    return {
        "state": status["state"],
        "percent": status["progress"].get("percentCompleted"),
        "actions": [
            {
                "name": action["name"],
                "blueprint": action["blueprint"],
                "object": action["object"],
                # The artifacts of a failed action are templates.
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
    """Remove the progress of deferred phases, which only we report."""
    for action in outcome["actions"]:
        del action["deferPhase"]["percent"]
    return outcome


def expected(name: str) -> Any:
    # Written by a YAML 1.2 writer, for which `n` and `y` are strings.
    return yaml.safe_load((RECORDED / name / "want.yaml").read_bytes())


@pytest.mark.parametrize("name", CASES)
def test_actionset_ends_as_in_kanister(name: str, cluster: MemoryCluster) -> None:
    want = expected(name)["status"]
    status = run_case(RECORDED / name, cluster).status
    if name in COMPLETES_HERE:
        assert (status["state"], want["state"]) == ("complete", "failed")
        return
    if name in REFUSED_FIRST:
        phases = status["actions"][0]["phases"]
        assert [phase["state"] for phase in phases] == REFUSED_FIRST[name]
    else:
        assert without_deferred_percent(outcome_of(status)) == without_deferred_percent(
            outcome_of(want)
        ), status["error"]
    assert has_meaning_of(name, want["error"]["message"], status["error"])
    assert "runningPhase" not in status["progress"]


def has_meaning_of(name: str, theirs: str, ours: Mapping[str, Any]) -> bool:
    """Return whether our error has the meaning of Kanister's, without its defects."""
    message = ours["message"]
    if not theirs:
        return bool(message == "")
    if name in EXPECTED_TEXTS:
        return EXPECTED_TEXTS[name] in message
    if exit_code := re.search(r"ExitCode:(\d+)", theirs):
        prefix = "Failed while waiting for Pod to complete: Pod failed"
        return prefix in message and bool(ours["exitCode"] == int(exit_code[1]))
    return theirs.removeprefix("null: ").lower() in message.lower()


# Fields that an API server adds or generates.
SERVER_FIELDS = {
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
SERVER_FIELDS_OF_CONTAINERS = {
    "resources",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeMounts",
}


def comparable_pod(pod: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the fields of a pod that a blueprint, an ActionSet or a function sets."""
    metadata, spec = pod["metadata"], pod["spec"]
    assert metadata["name"].startswith(prefix)
    return {
        "namespace": metadata["namespace"],
        "annotations": metadata["annotations"],
        "labels": {key: value for key, value in metadata["labels"].items() if key != RUN_LABEL},
        **{key: value for key, value in spec.items() if key not in SERVER_FIELDS},
        "containers": [
            {
                key: value
                for key, value in container.items()
                if key not in SERVER_FIELDS_OF_CONTAINERS
            }
            for container in spec["containers"]
        ],
    }


@pytest.mark.parametrize("name", [case for case in CASES if "pod" in expected(case)])
def test_pod_equals_that_of_kanister(name: str, cluster: MemoryCluster) -> None:
    want = expected(name)["pod"]
    (pod,) = run_case(RECORDED / name, cluster).pods
    prefix = want["metadata"]["generateName"]
    assert comparable_pod(pod, prefix) == comparable_pod(want, prefix)
