"""Schedules on a real API server: validation, and one run per time whichever process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.client import ApiClient, ApiFailed
from e2e.cluster.local import LocalCluster
from e2e.conftest import Kubectl
from e2e.controllers import PATIENCE_SECONDS, Place, kube_ops, until
from e2e.faults.faults import Hold
from e2e.faults.proxy import FaultProxy

__all__ = ["definitions", "place"]

SCHEDULES = "/apis/kanister-py.io/v1alpha1"


@pytest.fixture(scope="module")
def definitions(kubeconfig: Path) -> None:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "kanister_py",
            "crds",
            "install",
            "--only",
            "blueprints",
            "--kubeconfig",
            str(kubeconfig),
        ],
        check=True,
        capture_output=True,
    )


@pytest.fixture
def place(
    definitions: None,  # noqa: ARG001 # it is wanted for its effect
    admin: ApiClient,
    faults: FaultProxy,
    namespace: str,
    tmp_path: Path,
) -> Iterator[Place]:
    new_place = Place(admin, faults.kubeconfig, namespace, tmp_path)
    try:
        yield new_place
    finally:
        new_place.close()


def schedule(place: Place, name: str = "often", **spec: Any) -> dict[str, Any]:
    reference = {"kind": "Namespace", "name": place.namespace, "namespace": place.namespace}
    action = {"name": "act", "blueprint": "made-up", "object": reference, "options": {"name": "x"}}
    return {
        "apiVersion": "kanister-py.io/v1alpha1",
        "kind": "Schedule",
        "metadata": {"name": name},
        "spec": {
            "schedule": "@every 2s",
            "concurrencyPolicy": "Queue",
            "historyLimits": {"complete": 1000},
            "template": {"spec": {"actions": [action]}},
            **spec,
        },
    }


def create(place: Place, obj: dict[str, Any]) -> dict[str, Any]:
    return place.client.post(f"{SCHEDULES}/namespaces/{place.namespace}/schedules", obj)


def status(place: Place, name: str = "often") -> dict[str, Any]:
    path = f"{SCHEDULES}/namespaces/{place.namespace}/schedules/{name}"
    current: dict[str, Any] = place.client.get(path).get("status") or {}
    return current


def times(place: Place) -> list[str]:
    path = f"/apis/cr.kanister.io/v1alpha1/namespaces/{place.namespace}/actionsets"
    action_sets = place.client.get(path, labelSelector="kanister-py.io/schedule=often")["items"]
    return [
        action_set["metadata"]["annotations"]["kanister-py.io/scheduled-at"]
        for action_set in action_sets
    ]


def unhurried(place: Place) -> None:
    """Create the blueprint: its phase creates a ConfigMap, or finds it."""
    place.blueprint("made-up", {**kube_ops(place.namespace), "funcVersion": "v0.1.0"})


@pytest.mark.parametrize(
    ("name", "spec", "message"),
    [
        ("line", {"schedule": "0 0 2 * * *"}, "must be five fields"),
        ("policy", {"concurrencyPolicy": "Allow"}, "Unsupported value"),
        ("empty", {"template": {"spec": {"actions": []}}}, "at least 1 item"),
        ("n" * 64, {}, "no more than 63 characters"),
    ],
)
def test_api_server_refuses_invalid_schedules(
    place: Place, name: str, spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(ApiFailed) as refused:
        create(place, schedule(place, name, **spec))
    assert message in str(refused.value)


def test_schedule_runs_and_kubectl_shows_its_state(place: Place, kubectl: Kubectl) -> None:
    unhurried(place)
    create(place, schedule(place))
    place.start()
    until(lambda: status(place).get("lastSuccessfulTime"))
    shown = kubectl("-n", place.namespace, "get", "schedules").stdout.decode()
    assert "@every 2s" in shown
    assert "NEXT" in shown
    (ready,) = (
        condition for condition in status(place)["conditions"] if condition["type"] == "Ready"
    )
    assert ready["status"] == "True"


@pytest.mark.parametrize("is_done", [False, True], ids=["before it is done", "after"])
@pytest.mark.parametrize(
    ("verb", "resource", "subresource"),
    [("create", "actionsets", ""), ("update", "schedules", "status")],
)
def test_each_time_runs_once_wherever_the_controller_is_killed(
    place: Place, faults: FaultProxy, verb: str, resource: str, subresource: str, *, is_done: bool
) -> None:
    unhurried(place)
    create(place, schedule(place))
    first = place.start("--leader-elect", identity="first")
    until(lambda: len(times(place)) > 1)
    with faults.inject(
        Hold(is_done=is_done),
        verb=verb,
        resource=resource,
        subresource=subresource,
        namespace=place.namespace,
        times=1,
    ) as held:
        held.wait_for_hit(seconds=PATIENCE_SECONDS)
        # Another replica takes over while the first one still believes it is the leader.
        first.send_signal(signal.SIGSTOP)
        before = len(times(place))
        place.start("--leader-elect", identity="second")
        until(lambda: len(times(place)) > before + 1)
    first.send_signal(signal.SIGCONT)
    first.wait(PATIENCE_SECONDS)
    seen = len(times(place))
    until(lambda: len(times(place)) > seen + 1)
    recorded = times(place)
    assert len(recorded) == len(set(recorded)), place.logs()


def kanister(kubeconfig: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kanister_py", *words, "--kubeconfig", str(kubeconfig)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def blueprint(namespace: str) -> dict[str, Any]:
    def makes(name: str) -> dict[str, Any]:
        manifest = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: '{name}'\n"
        args = {"operation": "create", "namespace": namespace, "spec": manifest}
        return {"func": "KubeOps", "funcVersion": "v0.1.0", "name": "make", "args": args}

    left = {"dump": {"keyValue": {"name": "{{ .Options.name }}"}}}
    read = "{{ .ArtifactsIn.dump.KeyValue.name }}"
    return {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "made-up"},
        "actions": {
            "act": {"phases": [makes("backup-{{ .Options.name }}")], "outputArtifacts": left},
            "restore": {"phases": [makes(f"restored-{read}")]},
            "delete": {"phases": [makes(f"deleted-{read}")]},
        },
    }


def test_another_cluster_restores_the_backup_of_a_lost_one(
    place: Place,
    namespace: str,
    new_api_server: Callable[..., LocalCluster],
    kubeconfig: Path,
    tmp_path: Path,
) -> None:
    place.create("blueprints", blueprint(namespace))
    create(place, schedule(place, keep={"last": 2}))
    place.start()
    path = f"/api/v1/namespaces/{namespace}/configmaps/"
    # Backups continue, and the blueprint deletes the ones that retention removes.
    until(lambda: is_there(place.client, f"{path}deleted-x"))
    until(lambda: (status(place).get("backups") or {}).get("kept") == 2)
    kanister(kubeconfig, "schedule", "suspend", "often", "-n", namespace)
    file = tmp_path / "export.json"
    kanister(kubeconfig, "export", "-n", namespace, "--file", str(file))
    place.close()

    other = new_api_server()
    kanister(other.kubeconfig, "crds", "install", "--only", "blueprints")
    kanister(other.kubeconfig, "import", str(file))
    other_place = Place(other.client, other.kubeconfig, namespace, tmp_path)
    try:
        other_place.start()
        words = ("restore", "often", "-n", namespace, "-o", "name")
        name = kanister(other.kubeconfig, *words).strip()
        assert other_place.until_ended(name)["state"] == "complete", other_place.logs()
        assert is_there(other.client, f"{path}restored-x")
        # Imported objects did not run there.
        assert not is_there(other.client, f"{path}backup-x")
    finally:
        other_place.close()


def is_there(client: ApiClient, path: str) -> bool:
    try:
        client.get(path)
    except ApiFailed:
        return False
    return True
