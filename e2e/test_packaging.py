"""Packages generated from the chart for other tools: a Kustomize base and an OLM bundle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.chart import (
    BLUEPRINTS,
    HOME,
    READS_THE_GATE,
    SHOP,
    Installed,
    installed,
    open_gate,
    waits_for_the_gate,
)
from e2e.conftest import Kubectl
from tests.conftest import REPOSITORY

__all__ = ["installed"]

BASE = REPOSITORY / "deploy/kustomize"
IMAGE = f"example.org/kanister-py@sha256:{'a' * 64}"


def render(helm: Path, *words: str) -> None:
    program = [sys.executable, str(REPOSITORY / "deploy/render"), *words]
    subprocess.run(program, env={**os.environ, "HELM": str(helm)}, check=True)


def test_kustomize_base_matches_the_chart(helm: Path) -> None:
    manifest_file = BASE / "controller.yaml"
    before = list(yaml.safe_load_all(manifest_file.read_text(encoding="utf-8")))
    render(helm, "kustomize")
    after = list(yaml.safe_load_all(manifest_file.read_text(encoding="utf-8")))
    assert before == after, "deploy/render kustomize has written it anew"


def test_api_server_accepts_the_kustomize_base(kubectl_on: Kubectl) -> None:
    done = kubectl_on("kustomize", str(BASE))
    assert done.returncode == 0, done.stderr.decode()
    manifests = [document for document in yaml.safe_load_all(done.stdout) if document]
    definitions = {
        manifest["metadata"]["name"]
        for manifest in manifests
        if manifest["kind"] == "CustomResourceDefinition"
    }
    assert definitions == BLUEPRINTS
    words = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    done = kubectl_on(*words, stdin=done.stdout)
    assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.fixture
def kubectl_on(installed: Installed) -> Kubectl:
    return Kubectl(installed.cluster.programs.kubectl, installed.cluster.kubeconfig)


def installed_from(bundle: Path) -> Iterator[dict[str, Any]]:
    """Return all objects that the Operator Lifecycle Manager would create from a bundle."""
    manifests = [
        yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted((bundle / "manifests").iterdir())
    ]
    (version,) = [manifest for manifest in manifests if manifest["kind"] == "ClusterServiceVersion"]
    owned = version["spec"]["customresourcedefinitions"]["owned"]
    brought = [manifest for manifest in manifests if manifest["kind"] == "CustomResourceDefinition"]
    assert {definition["name"] for definition in owned} == {
        definition["metadata"]["name"] for definition in brought
    }
    yield from (manifest for manifest in manifests if manifest is not version)
    install = version["spec"]["install"]["spec"]
    group = "rbac.authorization.k8s.io"
    for kind, place in (("Role", {"namespace": HOME}), ("ClusterRole", {})):
        rights = install["permissions" if place else "clusterPermissions"]
        for right in rights:
            account = right["serviceAccountName"]
            yield {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": account},
            }
            metadata = {"name": f"of-{account}", **place}
            head = {"apiVersion": f"{group}/v1", "metadata": metadata}
            yield {**head, "kind": kind, "rules": right["rules"]}
            yield {
                **head,
                "kind": f"{kind}Binding",
                "roleRef": {"apiGroup": group, "kind": kind, "name": metadata["name"]},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": HOME}],
            }
    for deployment in install["deployments"]:
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": deployment["name"], "labels": deployment["label"]},
            "spec": deployment["spec"],
        }


def test_controller_with_the_rights_of_the_bundle_runs_actionsets(
    installed: Installed, kubectl_on: Kubectl, helm: Path, tmp_path: Path
) -> None:
    render(helm, "bundle", str(tmp_path), "--image", IMAGE)
    notes = yaml.safe_load((tmp_path / "metadata/annotations.yaml").read_text())["annotations"]
    assert (tmp_path / notes["operators.operatorframework.io.bundle.manifests.v1"]).is_dir()
    objects = list(installed_from(tmp_path))
    images = {
        container["image"]
        for manifest in objects
        if manifest["kind"] == "Deployment"
        for container in manifest["spec"]["template"]["spec"]["containers"]
    }
    assert images == {IMAGE}
    apply(kubectl_on, objects)
    apply(kubectl_on, list(rights_of(READS_THE_GATE["applications"][0]["rules"])))
    installed.start()
    installed.create("blueprints", "waits", SHOP, actions=waits_for_the_gate())
    open_gate(installed)
    assert installed.run("bundled", "waits")["state"] == "complete"
    installed.stop()
    assert "forbidden" not in installed.log.lower()


def rights_of(rules: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Grants in the namespace of an application, as users would write them."""
    head = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "gate", "namespace": SHOP},
    }
    subject = {"kind": "ServiceAccount", "name": "kanister-py", "namespace": HOME}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gate"}
    yield {**head, "kind": "Role", "rules": [*rules, *SEES_ITS_NAMESPACE]}
    yield {**head, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]}


SEES_ITS_NAMESPACE = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]


def apply(kubectl: Kubectl, objects: list[dict[str, Any]]) -> None:
    """Apply objects; namespaced ones without a namespace go to the home namespace."""
    for manifest in objects:
        if not manifest["kind"].startswith(("Cluster", "Custom")):
            manifest["metadata"].setdefault("namespace", HOME)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()
    done = kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr.decode()
