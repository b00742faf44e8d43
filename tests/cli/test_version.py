"""`kanister-py version`: the version of the program, and of controllers on a cluster."""

from __future__ import annotations

import json

import pytest

from kanister_py.cli.main import main
from kanister_py.cli.version import find_controllers
from kanister_py.embedded.cluster.cluster import MemoryCluster


def add_controller_pod(cluster: MemoryCluster, name: str, image: str, **labels: str) -> None:
    selected = {
        "app.kubernetes.io/name": "kanister-py",
        "app.kubernetes.io/component": "controller",
    }
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "labels": {**selected, **labels}},
            "spec": {"containers": [{"name": "controller", "image": image}]},
        }
    )


def test_the_client_version_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--client", "-o", "json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out) == {"client": {"version": "0.2.0"}}
    assert output.err == ""


def test_without_a_kubeconfig_only_the_client_version_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    assert main(["version"]) == 0
    output = capsys.readouterr()
    assert output.out.split() == ["Client:", "0.2.0"]
    assert "the versions of controllers are unknown" in output.err


def test_a_named_cluster_that_cannot_be_reached_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["version", "--kubeconfig", "/nowhere/config"]) == 1
    assert "error:" in capsys.readouterr().err


def test_controllers_are_found_by_their_pods(shop_cluster: MemoryCluster) -> None:
    add_controller_pod(
        shop_cluster, "one", "kanister-py:x", **{"app.kubernetes.io/version": "0.1.0"}
    )
    add_controller_pod(shop_cluster, "two", "registry.example:5000/kanister-py:0.3.0")
    expected = [("one", "0.1.0"), ("two", "0.3.0")]
    controllers = find_controllers(shop_cluster, "")
    assert [(controller["pod"], controller["version"]) for controller in controllers] == expected
