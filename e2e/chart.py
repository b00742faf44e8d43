"""The chart, rendered by Helm or installed on a cluster with its controllers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.client import ApiFailed
from e2e.cluster.local import LocalCluster
from e2e.conftest import make_namespace
from e2e.controllers import until
from kanister_py.executor.install_definitions import read_definitions
from tests.conftest import REPOSITORY
from tests.ports import free_port

CHART = REPOSITORY / "deploy/chart"
HOME, SHOP, OTHER = "kanister", "shop", "other"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kanister-py"


class Helm:
    """Helm with the chart and values."""

    def __init__(self, program: Path, folder: Path, kubeconfig: Path | None = None) -> None:
        self._program = program
        self._folder = folder
        self._kubeconfig = kubeconfig

    def __call__(
        self, *words: str, values: Mapping[str, Any] | None = None, refused: bool = False
    ) -> str:
        file = self._folder / "values.json"
        file.write_text(json.dumps(values or {}))
        with_values = ["--values", str(file)] if values is not None else []
        own = {key: str(self._folder / key) for key in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME")}
        where = ["--kubeconfig", str(self._kubeconfig)] if self._kubeconfig else []
        done = subprocess.run(
            [str(self._program), *words, *with_values, *where],
            capture_output=True,
            env={**os.environ, **own, "HELM_DATA_HOME": str(self._folder)},
            check=False,
            timeout=120,
        )
        assert (done.returncode != 0) is refused, done.stderr.decode()
        return (done.stderr if refused else done.stdout).decode()

    def objects(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rendered objects of the chart."""
        text = self(
            "template",
            "kanister-py",
            str(CHART),
            "--namespace",
            HOME,
            "--kube-version",
            "1.34.0",
            # Rendering has no access to a cluster.
            values={"crds": {"install": True}, **values},
        )
        return [obj for obj in yaml.safe_load_all(text) if obj]


def of_kind(objects: Iterable[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == kind}


BLUEPRINTS = {crd["metadata"]["name"] for crd in read_definitions("blueprints")}


class Installed:
    """Cluster with the installed chart, and controllers with the permissions of its pods."""

    def __init__(self, cluster: LocalCluster, helm: Helm, folder: Path) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.helm = helm
        self._log = folder / "controller.log"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def install(
        self, values: Mapping[str, Any], chart: Path = CHART, *, refused: bool = False
    ) -> str:
        return self.helm(
            "upgrade",
            "--install",
            "kanister-py",
            str(chart),
            "--namespace",
            HOME,
            values=values,
            refused=refused,
        )

    def roll_back(self, revision: int) -> None:
        self.helm("rollback", "kanister-py", str(revision), "--namespace", HOME)

    def uninstall(self) -> None:
        """Run the cleanup hook with its ServiceAccount, then uninstall the chart."""
        text = self.helm("get", "hooks", "kanister-py", "--namespace", HOME)
        for job in filter(None, yaml.safe_load_all(text)):
            self._run_job(job["spec"]["template"]["spec"])
        self.helm("uninstall", "kanister-py", "--namespace", HOME, "--no-hooks")

    def _run_job(self, pod: Mapping[str, Any]) -> None:
        kubeconfig = self.kubeconfig_of(pod["serviceAccountName"], "cleanup")
        args = [arg for arg in pod["containers"][0]["args"] if arg != "--in-cluster"]
        command = [sys.executable, "-m", "kanister_py", *args, "--kubeconfig", str(kubeconfig)]
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(subprocess.run, command, capture_output=True, text=True, check=False)
            # A Deployment stops its pods once it is scaled to zero.
            while not job.done():
                for key in tuple(self._processes):
                    name, _, replica = key.rpartition("-")
                    if self.deployment(name)["spec"]["replicas"] == 0:
                        self.stop(name, int(replica))
                time.sleep(0.5)
        assert job.result().returncode == 0, f"{job.result().stderr}\n{self.log}"

    def kubeconfig_of(self, account: str, name: str) -> Path:
        """Write a kubeconfig with the token of a ServiceAccount."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{HOME}/serviceaccounts/{account}/token"
        token = self.client.post(path, request)["status"]["token"]
        return self.cluster.write_kubeconfig(name, token=token, namespace=HOME)

    def deployment(self, name: str) -> dict[str, Any]:
        obj: dict[str, Any] = self.client.get(f"/apis/apps/v1/namespaces/{HOME}/deployments/{name}")
        return obj

    def start(self, name: str = "kanister-py", replica: int = 0) -> None:
        """Start a pod of a Deployment, as its ServiceAccount."""
        pod = self.deployment(name)["spec"]["template"]["spec"]
        kubeconfig = self.kubeconfig_of(pod["serviceAccountName"], name)
        args = pod["containers"][0]["args"]
        ports = ("--port", "--health-port", "--webhook-port")
        args = [
            f"{flag}={free_port()}" if (flag := arg.partition("=")[0]) in ports else arg
            for arg in args
        ]
        environment = {
            key: text for key, text in os.environ.items() if not key.startswith(("KANISTER", "POD"))
        }
        environment |= {"POD_NAMESPACE": HOME, "POD_NAME": f"{name}-{replica}"}
        with self._log.open("ab") as log:
            self._processes[f"{name}-{replica}"] = subprocess.Popen(
                [sys.executable, "-m", "kanister_py", *args, "--kubeconfig", str(kubeconfig)],
                env=environment,
                stderr=log,
            )

    def stop(self, name: str = "kanister-py", replica: int = 0) -> None:
        process = self._processes.pop(f"{name}-{replica}")
        process.send_signal(signal.SIGTERM)
        assert process.wait(180) == 0, self.log

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def until(self, expected: Callable[[], Any]) -> Any:
        try:
            return until(expected, 120)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log}") from None

    def bundle(self) -> str:
        webhook_entry = self.client.get(CONFIGURATION)["webhooks"][0]
        bundle: str = webhook_entry["clientConfig"].get("caBundle", "")
        return bundle

    def certificate(self) -> str:
        try:
            secret = self.client.get(f"/api/v1/namespaces/{HOME}/secrets/kanister-py-webhook")
        except ApiFailed:
            return ""
        certificate: str = secret["data"]["tls.crt"]
        return certificate

    def create(self, plural: str, name: str, namespace: str, **content: Any) -> str:
        path = f"/apis/cr.kanister.io/v1alpha1/namespaces/{namespace}/{plural}"
        kind = {"blueprints": "Blueprint", "actionsets": "ActionSet"}[plural]
        head = {"apiVersion": "cr.kanister.io/v1alpha1", "kind": kind, "metadata": {"name": name}}
        self.client.post(path, {**head, **content})
        return f"{path}/{name}"

    def run(self, name: str, blueprint: str) -> dict[str, Any]:
        """Run an ActionSet to its end, and return its status."""
        self.begin(name, blueprint)
        return self.until_state(name, "complete", "failed")

    def begin(self, name: str, blueprint: str, **options: Any) -> None:
        reference = {"kind": "Namespace", "name": SHOP, "namespace": SHOP}
        action = {"name": "act", "blueprint": blueprint, "object": reference}
        self.create("actionsets", name, SHOP, spec={"actions": [action], **options})

    def until_state(self, name: str, *states: str) -> dict[str, Any]:
        def reached() -> Any:
            path = f"/apis/cr.kanister.io/v1alpha1/namespaces/{SHOP}/actionsets/{name}"
            status = self.client.get(path).get("status") or {}
            return status if status.get("state") in states else None

        status: dict[str, Any] = self.until(reached)
        return status

    def refused(self) -> list[str]:
        """Return requests of the controllers that RBAC denied."""
        return sorted(
            {
                f"{request.account}: {request.verb} {request.resource}.{request.group}".rstrip(".")
                for request in self.cluster.audited_requests(HOME)
                if not request.is_allowed
            }
        )

    def unused(self) -> set[str]:
        """Return permissions in the chart's own rules that no controller has used."""
        used = {
            (request.group, request.resource, request.verb)
            for request in self.cluster.audited_requests(HOME)
            if request.is_allowed
        }
        permissions: set[str] = set()
        for kind in ("clusterroles", "roles"):
            for role in self.client.get(f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]:
                labels = role["metadata"].get("labels") or {}
                is_ours = labels.get("app.kubernetes.io/name") == "kanister-py"
                # Permissions of blueprints are not defined by the chart.
                if is_ours and not role["metadata"]["name"].endswith("-blueprints"):
                    permissions |= set(_unused(role["rules"], used))
        return permissions

    def composers(self) -> set[str]:
        """Return the accounts with the permissions for compositions."""
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kanister-py-composing"
        return {subject["name"] for subject in self.client.get(path)["subjects"]}

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes.clear()


def _unused(rules: Sequence[Mapping[str, Any]], used: set[tuple[str, str, str]]) -> Iterator[str]:
    for rule in rules:
        for group in rule.get("apiGroups") or ():
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    is_of_users = "*" in (resource, verb)
                    if not is_of_users and (group, resource, verb) not in used:
                        yield f"{verb} {resource}.{group}".rstrip(".")


@pytest.fixture
def installed(
    new_api_server: Callable[..., LocalCluster], helm: Path, tmp_path: Path
) -> Iterator[Installed]:
    # Many clusters enable this plugin, for which blockOwnerDeletion requires a permission.
    plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    yield from _installed(new_api_server(api_server_flags=[plugin]), helm, tmp_path)


@pytest.fixture
def installed_without_plugins(
    new_api_server: Callable[..., LocalCluster], helm: Path, tmp_path: Path
) -> Iterator[Installed]:
    """Cluster for the last chart, which lacks a permission that the plugin requires."""
    yield from _installed(new_api_server(), helm, tmp_path)


def _installed(cluster: LocalCluster, helm: Path, folder: Path) -> Iterator[Installed]:
    for name in (HOME, SHOP, OTHER):
        make_namespace(cluster.client, name)
    release = Installed(cluster, Helm(helm, folder, cluster.kubeconfig), folder)
    yield release
    release.close()


def waits_for_the_gate(name: str = "gate") -> dict[str, Any]:
    """Return the actions of a Blueprint that waits for a field of a ConfigMap."""
    reference = {"apiVersion": "v1", "resource": "configmaps", "name": name, "namespace": SHOP}
    condition = '{{ if eq "{ $.data.open }" "yes" }}true{{ end }}'
    one = {"condition": condition, "objectReference": reference}
    args = {"timeout": "10m", "conditions": {"anyOf": [one]}}
    return {"act": {"phases": [{"name": "wait", "func": "Wait", "args": args}]}}


READS_THE_GATE: dict[str, Any] = {
    "watch": {"namespaces": [SHOP]},
    "webhook": {"enabled": False},
    "applications": [
        {
            "namespace": SHOP,
            "rules": [
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
            ],
        }
    ],
}


def open_gate(installed: Installed, name: str = "gate") -> None:
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{SHOP}/configmaps"
    installed.client.post(path, {**head, "data": {"open": "yes"}})
