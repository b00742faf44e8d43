"""Functions that run commands, from the command line through a real API server to a node."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.client import ApiClient
from e2e.conftest import Kubectl
from tests.conftest import CommandLine, Finished

pytestmark = pytest.mark.usefixtures("node")

Phase = Mapping[str, Any]


class Runs:
    """Runs phases with `kanister-py run` on the real cluster, without a controller."""

    def __init__(self, kanister: CommandLine, kubeconfig: Path, namespace: str, at: Path) -> None:
        self._kanister = kanister
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._file = at / "blueprint.yaml"

    def __call__(
        self, *phases: Phase, env: Mapping[str, str] | None = None
    ) -> tuple[Finished, dict[str, Any]]:
        """Run phases; return how the command ended, and the status it printed."""
        blueprint = {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Blueprint",
            "metadata": {"name": "under-test"},
            "actions": {"go": {"phases": phases}},
        }
        self._file.write_text(json.dumps(blueprint))
        done = self._kanister(
            "run",
            str(self._file),
            "go",
            "--kubeconfig",
            str(self._kubeconfig),
            "-n",
            self._namespace,
            "-o",
            "json",
            env=env,
        )
        assert done.out, done.err
        return done, json.loads(done.out)


@pytest.fixture
def runs(kanister: CommandLine, kubeconfig: Path, namespace: str, tmp_path: Path) -> Runs:
    return Runs(kanister, kubeconfig, namespace, tmp_path)


@pytest.fixture
def web(kubectl: Kubectl, namespace: str, admin: ApiClient) -> list[str]:
    """The pods of a Deployment with two replicas, ready."""
    kubectl("-n", namespace, "create", "deployment", "web", "--image=web", "--replicas=2")
    rolled = kubectl("-n", namespace, "rollout", "status", "deployment/web", "--timeout=120s")
    assert rolled.returncode == 0, rolled.stderr
    pods = admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [one["metadata"]["name"] for one in pods]


def phase(func: str, name: str, namespace: str, script: str = "", /, **args: Any) -> Phase:
    command = {"command": ["sh", "-c", script]} if script else {}
    return {"func": func, "name": name, "args": {"namespace": namespace, **command, **args}}


def phases_of(printed: dict[str, Any]) -> list[dict[str, Any]]:
    status = printed.get("status", printed)
    phases: list[dict[str, Any]] = status["actions"][0]["phases"]
    return phases


def pods_in(admin: ApiClient, namespace: str) -> list[str]:
    pods = admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [one["metadata"]["name"] for one in pods]


def test_task_returns_its_output_and_leaves_no_pod(
    runs: Runs, namespace: str, admin: ApiClient
) -> None:
    script = "echo working; echo >&2 also here; kando output size 42"
    done, printed = runs(phase("KubeTask", "task", namespace, script, image="tools"))
    assert done.code == 0, done.err
    assert phases_of(printed)[0]["output"] == {"size": "42"}
    assert pods_in(admin, namespace) == []


def test_failed_task_reports_the_cause_and_leaves_no_pod(
    runs: Runs, namespace: str, admin: ApiClient
) -> None:
    script = "echo out of tape; exit 3"
    done, printed = runs(phase("KubeTask", "task", namespace, script, image="tools"))
    assert done.code == 1
    error = printed.get("status", printed)["error"]
    assert (error["reason"], error["exitCode"]) == ("CommandFailed", 3)
    assert error["logTail"] == ["out of tape"]
    assert pods_in(admin, namespace) == []


def test_pods_are_admitted_where_the_restricted_standard_is_enforced(
    runs: Runs, namespace: str, kubectl: Kubectl
) -> None:
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    task = phase("KubeTask", "task", namespace, "kando output size 42", image="tools")
    done, printed = runs(task)
    assert done.code == 1
    assert "violates PodSecurity" in printed.get("status", printed)["error"]["message"]
    setting = {"KANISTER_PY_JOB_POD_SECURITY": "restricted", "KANISTER_PY_JOB_POD_USER": "65532"}
    done, printed = runs(task, env=setting)
    assert done.code == 0, done.err
    assert phases_of(printed)[0]["output"] == {"size": "42"}


def test_long_log_is_complete(runs: Runs, namespace: str) -> None:
    script = "seq 1 50000; kando output last 50000"
    done, printed = runs(phase("KubeTask", "task", namespace, script, image="tools"))
    assert done.code == 0, done.err
    assert phases_of(printed)[0]["output"] == {"last": "50000"}


def test_command_runs_in_an_existing_pod(runs: Runs, namespace: str, web: list[str]) -> None:
    script = "kando output host $(hostname); echo noise >&2"
    done, printed = runs(phase("KubeExec", "exec", namespace, script, pod=web[0]))
    assert done.code == 0, done.err
    assert phases_of(printed)[0]["output"] == {"host": web[0]}


def test_failed_command_in_a_pod_reports_the_cause(
    runs: Runs, namespace: str, web: list[str]
) -> None:
    done, printed = runs(phase("KubeExec", "exec", namespace, "echo no >&2; exit 9", pod=web[0]))
    assert done.code == 1
    error = printed.get("status", printed)["error"]
    assert (error["exitCode"], error["logTail"]) == (9, ["no"])


def test_a_command_runs_in_many_pods_at_once(runs: Runs, namespace: str, web: list[str]) -> None:
    script = "kando output $(hostname | tr -d -) here"
    everywhere = phase(
        "KubeExecAll", "all", namespace, script, pods=" ".join(web), containers="web"
    )
    done, printed = runs(everywhere)
    assert done.code == 0, done.err
    assert phases_of(printed)[0]["output"] == {name.replace("-", ""): "here" for name in web}


def test_two_containers_share_a_volume(runs: Runs, namespace: str, admin: ApiClient) -> None:
    done, printed = runs(
        phase(
            "MultiContainerRun",
            "both",
            namespace,
            initImage="tools",
            initCommand=["sh", "-c", "mkfifo /tmp/data"],
            backgroundImage="tools",
            backgroundCommand=["sh", "-c", "echo through the pipe > /tmp/data"],
            outputImage="tools",
            outputCommand=["sh", "-c", 'kando output got "$(cat /tmp/data)"'],
        )
    )
    assert done.code == 0, done.err
    assert phases_of(printed)[0]["output"] == {"got": "through the pipe"}
    assert pods_in(admin, namespace) == []


def test_data_is_prepared_on_a_volume(runs: Runs, namespace: str, admin: ApiClient) -> None:
    admin.post(
        f"/api/v1/namespaces/{namespace}/persistentvolumeclaims",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Mi"}},
            },
        },
    )
    volumes = {"data": "/mnt/data"}
    done, printed = runs(
        phase(
            "PrepareData",
            "write",
            namespace,
            "echo kept > /mnt/data/file",
            image="tools",
            volumes=volumes,
        ),
        phase(
            "PrepareData",
            "read",
            namespace,
            "kando output found $(cat /mnt/data/file)",
            image="tools",
            volumes=volumes,
        ),
    )
    assert done.code == 0, done.err
    assert phases_of(printed)[1]["output"] == {"found": "kept"}


def test_workload_is_scaled_and_awaited(
    runs: Runs, namespace: str, web: list[str], admin: ApiClient
) -> None:
    assert len(web) == 2
    scaled = {"name": "web", "kind": "Deployment", "replicas": 0, "waitForReady": True}
    done, _ = runs(phase("ScaleWorkload", "down", namespace, **scaled))
    assert done.code == 0, done.err
    assert pods_in(admin, namespace) == []


def test_a_pod_that_another_client_deletes_fails_its_phase(
    runs: Runs, namespace: str, admin: ApiClient, kubectl: Kubectl
) -> None:
    def take_away() -> None:
        for event in admin.watch(f"/api/v1/namespaces/{namespace}/pods", timeoutSeconds="40"):
            if event["object"]["status"].get("phase") == "Running":
                name = event["object"]["metadata"]["name"]
                kubectl("-n", namespace, "delete", "pod", name, "--grace-period=0", "--force")
                return

    thief = threading.Thread(target=take_away)
    thief.start()
    done, printed = runs(phase("KubeTask", "task", namespace, "sleep 60", image="tools"))
    thief.join()
    assert done.code == 1
    assert printed.get("status", printed)["error"]["phase"] == "task"
