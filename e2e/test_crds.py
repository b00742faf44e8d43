"""`kanister-py crds` on a real API server, with its defaults and validation."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from e2e.cluster.local import LocalCluster
from e2e.conftest import Kubectl
from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice
from tests.conftest import CommandLine
from tests.contracts.revisions import check_revisions_are_immutable_except_for_their_number

BLUEPRINTS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/blueprints.cr.kanister.io"


@pytest.fixture
def cluster(new_api_server: Callable[..., LocalCluster]) -> LocalCluster:
    return new_api_server()


def test_definitions_of_others_are_not_replaced(
    cluster: LocalCluster, kanister: CommandLine
) -> None:
    kubectl = Kubectl(cluster.programs.kubectl, cluster.kubeconfig)
    where = ("--kubeconfig", str(cluster.kubeconfig))

    def steps(*words: str, code: int = 0) -> set[str]:
        done = kanister("crds", *words, *where)
        assert done.code == code, done.err
        lines = [line for line in done.out.splitlines() if not line.startswith(" ")]
        return {line.partition(" ")[2] for line in lines}

    assert steps("install", "--dry-run") == {"would be created"}
    assert steps("install") == {"created"}
    # Defaults of the API server are no difference.
    assert steps("install") == {"unchanged"}
    assert steps("upgrade") == {"unchanged"}
    assert kubectl("get", "blueprints,actionsets,functions", "-A").returncode == 0

    kept = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "kept", "namespace": "default"},
        "actions": {"act": {"phases": [{"name": "one", "func": "Wait", "funcVersion": "v0.0.0"}]}},
    }
    assert kubectl("apply", "-f", "-", stdin=json.dumps(kept).encode()).returncode == 0
    cluster.client.patch(BLUEPRINTS, {"spec": {"names": {"shortNames": ["bp"]}}})
    assert steps("install") == {"unchanged", "left as it is"}
    operator = ("deployment", "kanister-operator")
    image = "--image=kanisterio/controller:0.114.0"
    assert kubectl("create", *operator, image).returncode == 0
    refused = kanister("crds", "upgrade", *where)
    assert refused.code == 1
    assert "Deployment default/kanister-operator" in refused.err
    assert cluster.client.get(BLUEPRINTS)["spec"]["names"]["shortNames"] == ["bp"]

    assert kubectl("scale", *operator, "--replicas=0").returncode == 0
    assert steps("upgrade") == {"unchanged", "upgraded"}
    assert cluster.client.get(BLUEPRINTS)["spec"]["names"]["shortNames"] == ["kbp"]
    result = kubectl("get", "blueprint", "kept", "-o", "json")
    phase = json.loads(result.stdout)["actions"]["act"]["phases"][0]
    assert phase["funcVersion"] == "v0.0.0"


def test_only_the_number_of_a_composition_revision_changes(
    cluster: LocalCluster, kanister: CommandLine
) -> None:
    assert kanister("crds", "install", "--kubeconfig", str(cluster.kubeconfig)).code == 0
    adapter = KubeCluster(ClusterChoice(kubeconfig=str(cluster.kubeconfig)))
    try:
        check_revisions_are_immutable_except_for_their_number(adapter)
    finally:
        adapter.close()
