"""The verbs of `kanister-py actionset` against a controller on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.client import ApiClient
from e2e.controllers import Place, definitions, install_definitions, until
from tests.conftest import CommandLine

__all__ = ["definitions", "place"]


@pytest.fixture
def place(admin: ApiClient, kubeconfig: Path, namespace: str, tmp_path: Path) -> Iterator[Place]:
    install_definitions(admin)
    new_place = Place(admin, kubeconfig, namespace, tmp_path)
    yield new_place
    new_place.close()


class Verbs:
    """Runs `kanister-py actionset` in the namespace of the test."""

    def __init__(self, kanister: CommandLine, place: Place) -> None:
        self._kanister = kanister
        self._where = ("-n", place.namespace, "--kubeconfig", str(place.kubeconfig))

    def __call__(self, verb: str, *words: str, code: int = 0) -> str:
        done = self._kanister("actionset", verb, *words, *self._where)
        assert done.code == code, done.err
        return done.out if code == 0 else done.err


@pytest.fixture
def verbs(kanister: CommandLine, place: Place) -> Verbs:
    return Verbs(kanister, place)


def makes(name: str, of: str) -> dict[str, Any]:
    """Return a phase that creates an object and fails if the object exists."""
    manifest = f"apiVersion: v1\nkind: {of}\nmetadata: {{name: '{name}'}}\ndata: {{a: b}}\n"
    args = {"operation": "create", "namespace": "{{ .Object.metadata.name }}", "spec": manifest}
    return {"name": f"make-{name}", "func": "KubeOps", "args": args}


def test_an_actionset_is_created_followed_and_listed(place: Place, verbs: Verbs) -> None:
    place.blueprint("maps", makes("one", "ConfigMap"))
    place.start()
    words = ("-a", "act", "-b", "maps", "-T", place.namespace, "--name", "first", "--wait")
    assert verbs("create", *words) == "actionset first created\n"
    assert place.client.get(f"/api/v1/namespaces/{place.namespace}/configmaps/one")
    (row,) = verbs("get").splitlines()[1:]
    assert row.split()[:3] == ["first", "complete", "100%"]
    read = json.loads(verbs("get", "first", "-o", "json"))
    assert read["status"]["actions"][0]["phases"][0]["funcVersion"] == "v0.0.0"


def test_retry_repeats_failed_phases_and_keeps_completed_ones(place: Place, verbs: Verbs) -> None:
    place.blueprint("maps", makes("one", "ConfigMap"), makes("two", "ConfigMap"))
    existing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two"}}
    maps = f"/api/v1/namespaces/{place.namespace}/configmaps"
    place.client.post(maps, existing)
    place.start()
    place.actionset("first", "maps")
    output = verbs("watch", "first", code=1)
    assert "kanister-py actionset retry" in output
    place.client.delete(f"{maps}/two")
    verbs("retry", "first", "--name", "again", "--wait")
    status = place.status("again")
    assert status["state"] == "complete"
    # If the first phase had run twice, it would have failed: its ConfigMap exists.
    assert [phase["state"] for phase in status["actions"][0]["phases"]] == ["complete"] * 2


def test_a_child_gets_its_parents_artifacts(place: Place, verbs: Verbs) -> None:
    left = {"made": {"keyValue": {"name": "one"}}}
    place.blueprint("maps", makes("one", "ConfigMap"), outputArtifacts=left)
    place.start()
    place.actionset("first", "maps")
    place.until_ended("first")
    child = verbs("create", "--from", "first", "--dry-run", "--output", "json")
    assert json.loads(child)["spec"]["actions"][0]["artifacts"]["made"]["keyValue"] == {
        "name": "one"
    }


def test_cancelled_actionset_ends_as_cancelled(place: Place, verbs: Verbs) -> None:
    condition = {
        "condition": '{{ if eq "{ $.status.phase }" "Gone" }}true{{ else }}false{{ end }}',
        "objectReference": {"apiVersion": "v1", "resource": "namespaces", "name": place.namespace},
    }
    args = {"timeout": "10m", "conditions": {"anyOf": [condition]}}
    wait = {"name": "wait", "func": "Wait", "args": args}
    place.blueprint("waits", wait)
    place.start()
    place.actionset("first", "waits")
    output = verbs("cancel", "first", "--wait", code=130)
    assert "cancelled" in output
    assert place.status("first")["error"]["reason"] == "Cancelled"
    assert "nothing left to cancel" in verbs("cancel", "first", code=1)


def test_create_reports_all_missing_input_before_creating_anything(
    place: Place, verbs: Verbs
) -> None:
    place.blueprint("maps", makes("one", "ConfigMap"))
    output = verbs("create", "-a", "act", "-b", "maps", "-d", "gone", "-p", "s3", code=1)
    assert "There is no Deployment" in output
    assert "There is no profile" in output
    assert verbs("get", "-o", "name") == ""


@pytest.mark.usefixtures("node")
def test_phase_logs_are_read_from_all_replicas(place: Place, verbs: Verbs) -> None:
    place.blueprint("maps", makes("one", "ConfigMap"))
    place.start()
    place.actionset("first", "maps")
    place.until_ended("first")

    def line(second: int, of: str, text: str, logger: str = "kanister_py.phase") -> str:
        fields = {
            "time": f"2026-01-01T00:00:{second:02d}.000000Z",
            "logger": logger,
            "message": text,
            "namespace": place.namespace,
            "actionSet": of,
            "action": "act",
            "phase": "make-one",
            "attempt": 1,
        }
        return json.dumps(fields)

    replica(place, "former", [line(1, "first", "begins"), line(2, "other", "not its own")])
    replica(
        place,
        "leader",
        ["not JSON", line(3, "first", "ends"), line(4, "first", "of no phase", "kanister_py")],
    )
    output = verbs("logs", "first", "--controller-namespace", place.namespace)
    assert output == "act/make-one | begins\nact/make-one | ends\n"
    logged = verbs("logs", "first", "-o", "json", "--phase", "make-one")
    assert [json.loads(line)["line"] for line in logged.splitlines()] == ["begins", "ends"]
    assert verbs("logs", "first", "--phase", "another") == ""


def replica(place: Place, name: str, log: list[str]) -> None:
    """Run a pod that looks like a replica of the controller, with a similar log."""
    script = "\n".join(f"echo '{line}'" for line in log)
    labels = {
        "app.kubernetes.io/name": "kanister-py",
        "app.kubernetes.io/component": "controller",
    }
    container = {"name": "controller", "image": "busybox", "command": ["sh", "-c", script]}
    pods = f"/api/v1/namespaces/{place.namespace}/pods"
    place.client.post(
        pods,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [container], "restartPolicy": "Never"},
        },
    )

    def is_over() -> bool:
        phase = place.client.get(f"{pods}/{name}").get("status", {}).get("phase")
        return bool(phase == "Succeeded")

    until(is_over)
