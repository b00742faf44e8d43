"""Messages of kubectl about Blueprints and ActionSets that the webhook checks."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.client import ApiClient, ApiFailed
from e2e.conftest import Kubectl
from e2e.controllers import install_definitions, until
from kanister_py.executor.install_definitions import read_definitions
from tests.ports import free_port

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
IDENTITY = "crossplane.io/composition-name"
RULES = (
    ("cr.kanister.io", "v1alpha1", ["blueprints", "actionsets"]),
    ("apiextensions.crossplane.io", "v1", ["compositionrevisions"]),
    ("pkg.crossplane.io", "v1", ["functions"]),
)


class Webhook:
    """A controller with a webhook, and the configuration with which the API server calls it."""

    def __init__(
        self, client: ApiClient, kubeconfig: Path, namespace: str, folder: Path, plugins: Path
    ) -> None:
        self.client = client
        self.namespace = namespace
        self.name = f"kanister-py-{namespace}"
        self.port = free_port()
        self._kubeconfig = kubeconfig
        self._log = folder / "controller.log"
        self._plugins = plugins
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self) -> None:
        self.client.post(
            CONFIGURATIONS,
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": self.name},
                "webhooks": [self._webhook(index, *rule) for index, rule in enumerate(RULES)],
            },
        )

    def _webhook(
        self, index: int, group: str, version: str, resources: list[str]
    ) -> dict[str, Any]:
        webhook = {
            "name": f"rule-{index}.{self.namespace}.kanister-py.io",
            "clientConfig": {"url": f"https://localhost:{self.port}/validate"},
            "rules": [
                {
                    "apiGroups": [group],
                    "apiVersions": [version],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": resources,
                }
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 10,
        }
        if group == "cr.kanister.io":
            own = {"kubernetes.io/metadata.name": self.namespace}
            webhook["namespaceSelector"] = {"matchLabels": own}
        return webhook

    def start(self, *words: str) -> None:
        environment = {
            key: text for key, text in os.environ.items() if not key.startswith(("KANISTER", "POD"))
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "kanister_py",
                    "controller",
                    "--no-http",
                    "--kubeconfig",
                    str(self._kubeconfig),
                    "--namespace",
                    self.namespace,
                    "--home",
                    self.namespace,
                    "--webhook-port",
                    str(self.port),
                    "--webhook-name",
                    "localhost",
                    "--webhook-configuration",
                    self.name,
                    "--leader-elect",
                    "--identity",
                    f"pod-{os.urandom(3).hex()}",
                    *words,
                ],
                env={**environment, "PYTHONPATH": str(self._plugins)},
                stderr=log,
            )

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            assert self._process.wait(180) == 0, self._log.read_text()
            self._process = None

    def until_trusted(self) -> bytes:
        def trusted() -> bytes:
            configuration = self.client.get(f"{CONFIGURATIONS}/{self.name}")
            bundles = {
                entry["clientConfig"].get("caBundle", "") for entry in configuration["webhooks"]
            }
            return base64.b64decode(bundles.pop()) if len(bundles) == 1 else b""

        try:
            bundle: bytes = until(trusted)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._log.read_text()}") from None
        until(lambda: self._answers(bundle))
        return bundle

    def _answers(self, bundle: bytes) -> bool:
        """Return whether the server presents a trusted certificate."""
        trust = ssl.create_default_context(cadata=bundle.decode())
        try:
            with (
                socket.create_connection(("127.0.0.1", self.port), 1) as connection,
                trust.wrap_socket(connection, server_hostname="localhost"),
            ):
                return True
        except OSError:
            return False

    def close(self) -> None:
        with suppress(ApiFailed):
            self.client.delete(f"{CONFIGURATIONS}/{self.name}")
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def webhook(
    admin: ApiClient, kubeconfig: Path, namespace: str, tmp_path: Path, plugin_folder: Path
) -> Iterator[Webhook]:
    install_definitions(admin)
    server = Webhook(admin, kubeconfig, namespace, tmp_path, plugin_folder)
    yield server
    server.close()


def blueprint(name: str, **phase: Any) -> bytes:
    valid_blueprint = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": name},
        "actions": {"act": {"phases": [{"name": "one", **phase}]}},
    }
    return json.dumps(valid_blueprint).encode()


def actionset(name: str, of: str, **action: Any) -> bytes:
    reference = {"kind": "Namespace", "name": "default", "namespace": "default"}
    valid_blueprint = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": name},
        "spec": {"actions": [{"name": "act", "blueprint": of, "object": reference, **action}]},
    }
    return json.dumps(valid_blueprint).encode()


GOOD = {
    "func": "KubeTask",
    "args": {"image": "busybox", "command": ["true"], "namespace": "default"},
}
OLD = {"func": "Notify", "funcVersion": "v0.1.0", "args": {"to": "ops", "text": "hi"}}
GONE = {"func": "Notify", "funcVersion": "v0.0.1"}


def test_errors_are_refused_and_other_findings_are_warnings(
    webhook: Webhook, kubectl: Kubectl
) -> None:
    webhook.configure()
    webhook.start()
    webhook.until_trusted()
    apply = ("-n", webhook.namespace, "apply", "-f", "-")

    done = kubectl(*apply, stdin=blueprint("good", **GOOD))
    assert (done.returncode, done.stderr) == (0, b"")

    done = kubectl(*apply, stdin=blueprint("bad", func="KubeTsk"))
    assert done.returncode == 1
    assert b"act/one: " in done.stderr
    assert b"KubeTask" in done.stderr, "the nearest name helps"
    path = f"/apis/cr.kanister.io/v1alpha1/namespaces/{webhook.namespace}"
    names = [obj["metadata"]["name"] for obj in webhook.client.get(f"{path}/blueprints")["items"]]
    assert names == ["good"]

    # An unknown version falls back to another one: a warning, not an error.
    done = kubectl(*apply, stdin=blueprint("newer", **{**GOOD, "funcVersion": "v9.0.0"}))
    assert done.returncode == 0
    assert b"Warning: act/one: " in done.stderr
    assert b"v9.0.0" in done.stderr

    done = kubectl(*apply, stdin=actionset("early", "nobody"))
    assert done.returncode == 0
    assert b"Warning: There is no Blueprint nobody yet" in done.stderr
    done = kubectl(*apply, stdin=actionset("wrong", "good", preferredVersion="v1"))
    assert done.returncode == 1
    assert b"v1" in done.stderr


def test_deprecated_version_is_reported_in_blueprint_and_actionset(
    webhook: Webhook, kubectl: Kubectl
) -> None:
    webhook.configure()
    webhook.start()
    webhook.until_trusted()
    apply = ("-n", webhook.namespace, "apply", "-f", "-")
    done = kubectl(*apply, stdin=blueprint("old", **OLD))
    assert done.returncode == 0, done.stderr
    assert b"Warning: act/one: " in done.stderr
    assert b"deprecated" in done.stderr
    done = kubectl(*apply, stdin=actionset("uses-it", "old"))
    assert b"Warning: Blueprint old, act/one: " in done.stderr
    done = kubectl(*apply, stdin=blueprint("gone", **GONE))
    assert done.returncode == 1
    assert b"v0.2.0" in done.stderr, "what to take instead"


def test_renewed_certificates_cause_no_refusal(webhook: Webhook, kubectl: Kubectl) -> None:
    webhook.configure()
    webhook.start("--certificate-life", "9s")
    webhook.until_trusted()
    path = f"/api/v1/namespaces/{webhook.namespace}/secrets/kanister-py-webhook"
    first = webhook.client.get(path)["data"]["tls.crt"]
    seen = {first}

    def asked() -> bool:
        # With failurePolicy Fail, an untrusted certificate would be an error here.
        done = kubectl(
            "-n",
            webhook.namespace,
            "create",
            "--dry-run=server",
            "-f",
            "-",
            stdin=blueprint("good", **GOOD),
        )
        assert done.returncode == 0, done.stderr
        seen.add(webhook.client.get(path)["data"]["tls.crt"])
        return len(seen) >= 4

    until(asked, 90)


def test_new_controller_keeps_the_certificates(webhook: Webhook, kubectl: Kubectl) -> None:
    webhook.configure()
    webhook.start()
    bundle = webhook.until_trusted()
    webhook.stop()
    webhook.start()
    assert webhook.until_trusted() == bundle
    done = kubectl("-n", webhook.namespace, "apply", "-f", "-", stdin=blueprint("good", **GOOD))
    assert done.returncode == 0, done.stderr


def test_webhook_configuration_may_be_created_later(webhook: Webhook) -> None:
    webhook.start("--certificate-life", "30s")
    path = f"/api/v1/namespaces/{webhook.namespace}/secrets/kanister-py-webhook"

    def is_made() -> bool:
        try:
            return bool(webhook.client.get(path))
        except ApiFailed:
            return False

    until(is_made, 60)
    webhook.configure()
    webhook.until_trusted()


def test_revisions_are_immutable_and_limits_are_validated(
    webhook: Webhook, kubectl: Kubectl
) -> None:
    for definition in read_definitions("compositions"):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        with suppress(ApiFailed):
            webhook.client.post(path, definition)
    until(lambda: kubectl("get", "compositionrevisions,functions").returncode == 0, 30)
    webhook.configure()
    webhook.start()
    webhook.until_trusted()
    name = webhook.namespace
    revision = {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "CompositionRevision",
        "metadata": {"name": name},
        "spec": {
            "revision": 1,
            "mode": "Pipeline",
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XR"},
            "pipeline": [{"step": "one", "functionRef": {"name": "f"}}],
        },
    }
    done = kubectl("apply", "-f", "-", stdin=json.dumps(revision).encode())
    assert done.returncode == 0, done.stderr
    patch = ("patch", "compositionrevision", name, "--type=merge", "-p")
    assert kubectl(*patch, '{"spec": {"revision": 2}}').returncode == 0
    ann = ("--as=ann", "--as-group=system:masters")
    for change in ({"spec": {"revision": 3}}, {"metadata": {"labels": {IDENTITY: "other"}}}):
        done = kubectl(*patch, json.dumps(change), *ann)
        assert done.returncode == 1
        assert b"Must not be changed by ann: the controller (" in done.stderr
    labelled = json.dumps({"metadata": {"labels": {"channel": "stable"}}})
    assert kubectl(*patch, labelled, *ann).returncode == 0
    done = kubectl(*patch, '{"spec": {"mode": "Resources"}}')
    assert done.returncode == 1
    # Our definition refuses it first; with another definition installed, the webhook does.
    assert b"immutable" in done.stderr or b"spec.mode: Must not change" in done.stderr
    assert kubectl("delete", "compositionrevision", name).returncode == 0

    function = {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "Function",
        "metadata": {"name": name},
        "spec": {
            "package": "example.org/f:v1",
            "activeRevisionLimit": 3,
            "revisionHistoryLimit": 2,
        },
    }
    done = kubectl("apply", "-f", "-", stdin=json.dumps(function).encode())
    assert done.returncode == 1
    assert b"activeRevisionLimit" in done.stderr
