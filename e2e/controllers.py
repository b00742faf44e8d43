"""Controllers as processes on a real API server, and the runs that they carry out."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.client import ApiClient, ApiFailed, ApiUnreachable

PATIENCE_SECONDS = 180.0


GROUP = "/apis/cr.kanister.io/v1alpha1"


SETTINGS = ("KANISTER_PY", "POD_")


def install_definitions(client: ApiClient) -> None:
    """Install our definitions, and wait until they are served."""
    for name in ("actionsets", "blueprints", "profiles"):
        text = files("kanister_py.crds").joinpath(f"{name}.yaml").read_text("utf-8")
        with suppress(ApiFailed):
            client.post(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(text)
            )
        until(partial(is_served, client, name))


def is_served(client: ApiClient, plural: str) -> bool:
    try:
        client.get(f"{GROUP}/{plural}")
    except (ApiFailed, ApiUnreachable):
        return False
    return True


def until(wanted: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """Call a function repeatedly until its result is true, and return the result."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = wanted()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"it never came within {seconds} s")


@pytest.fixture(scope="module")
def definitions(admin: ApiClient) -> None:
    install_definitions(admin)


class Place:
    """A namespace with ActionSets, and the controllers that were started for it."""

    def __init__(self, client: ApiClient, kubeconfig: Path, namespace: str, folder: Path) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, identity: str = "one-pod") -> subprocess.Popen[bytes]:
        """Start a controller; its log is a file in the folder of the test."""
        environment = {
            key: text for key, text in os.environ.items() if not key.startswith(SETTINGS)
        }
        with (self._folder / f"controller-{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "kanister_py",
                    "controller",
                    "--no-http",
                    "--kubeconfig",
                    str(self.kubeconfig),
                    "--namespace",
                    self.namespace,
                    "--home",
                    self.namespace,
                    "--identity",
                    identity,
                    *words,
                ],
                env=environment,
                stderr=log,
            )
        self._processes.append(process)
        return process

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("*.log")))

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def create(self, plural: str, obj: Mapping[str, Any]) -> dict[str, Any]:
        return self.client.post(f"{GROUP}/namespaces/{self.namespace}/{plural}", dict(obj))

    def path(self, name: str) -> str:
        return f"{GROUP}/namespaces/{self.namespace}/actionsets/{name}"

    def blueprint(self, name: str, *phases: Mapping[str, Any], **more: Any) -> None:
        action = {"phases": [dict(phase) for phase in phases], **more}
        self.create(
            "blueprints",
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "Blueprint",
                "metadata": {"name": name},
                "actions": {"act": action},
            },
        )

    def actionset(self, name: str, blueprint: str, **spec: Any) -> None:
        reference = {"kind": "Namespace", "name": self.namespace, "namespace": self.namespace}
        action = {
            "name": "act",
            "blueprint": blueprint,
            "object": reference,
            "options": {"name": name},
        }
        self.create(
            "actionsets",
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "ActionSet",
                "metadata": {"name": name},
                "spec": {"actions": [action], **spec},
            },
        )

    def status(self, name: str) -> dict[str, Any]:
        current: dict[str, Any] = self.client.get(self.path(name)).get("status") or {}
        return current

    def until_ended(self, name: str) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            with suppress(ApiFailed, ApiUnreachable):
                status = self.status(name)
                if status.get("state") in ("complete", "failed"):
                    return status
            return None

        try:
            final: dict[str, Any] = until(ended)
        except AssertionError as error:
            raise AssertionError(f"{self.status(name)}\n{self.logs()}") from error
        return final

    def is_let_go(self, name: str) -> bool:
        return not self.client.get(self.path(name))["metadata"].get("finalizers")

    def until_running(self, name: str) -> None:
        until(lambda: self.status(name).get("state") == "running")


@pytest.fixture
def place(
    definitions: None,  # noqa: ARG001 # it is wanted for its effect
    admin: ApiClient,
    kubeconfig: Path,
    namespace: str,
    tmp_path: Path,
) -> Iterator[Place]:
    new_place = Place(admin, kubeconfig, namespace, tmp_path)
    try:
        yield new_place
    finally:
        new_place.close()


def kube_ops(namespace: str, name: str = "make") -> dict[str, Any]:
    manifest = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}-{{{{ .Options.name }}}}\n"
    )
    args = {"operation": "create", "namespace": namespace, "spec": manifest}
    return {"func": "KubeOps", "name": name, "args": args}


def kube_task(namespace: str, name: str, script: str) -> dict[str, Any]:
    command = ["sh", "-c", script]
    args = {"namespace": namespace, "image": "busybox", "command": command}
    return {"func": "KubeTask", "name": name, "args": args}


def gate(namespace: str) -> dict[str, Any]:
    condition = {
        "condition": "{{ if .data }}true{{ else }}false{{ end }}",
        "objectReference": {
            "apiVersion": "v1",
            "resource": "configmaps",
            "name": "gate",
            "namespace": namespace,
        },
    }
    args = {"timeout": "5m", "conditions": {"anyOf": [condition]}}
    return {"func": "WaitV2", "name": "gate", "args": args}


def make_gate(place: Place) -> None:
    place.client.post(
        f"/api/v1/namespaces/{place.namespace}/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate"}},
    )


def open_gate(place: Place) -> None:
    place.client.patch(
        f"/api/v1/namespaces/{place.namespace}/configmaps/gate", {"data": {"open": "yes"}}
    )


def is_gone(place: Place, name: str) -> bool:
    try:
        place.client.get(place.path(name))
    except ApiFailed as error:
        return error.status == 404
    return False
