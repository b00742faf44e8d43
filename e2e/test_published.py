"""A published blueprint runs unmodified on a real API server: backup, destroy, restore, delete.

Application, blueprint and ActionSet are published by Kanister. They are found next to the
recorded answers (`KANISTER_PY_RECORDED`); without these, nothing is collected.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.cluster.client import ApiClient, ApiFailed
from e2e.conftest import make_namespace
from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice
from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.core.kube.resources import PODS
from kanister_py.ports.cluster import Cluster
from kanister_py.wiring import object_stores
from tests.recorded.published import act, application
from tests.stores import running_store

__all__ = ["cluster", "location"]

pytestmark = pytest.mark.usefixtures("node")

# Published manifests name their namespaces.
MADE = (
    "/apis/apps/v1/namespaces/default/deployments/time-logger",
    "/api/v1/namespaces/default/persistentvolumeclaims/time-log-pvc",
    "/api/v1/namespaces/kanister",
)


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    with running_store(StoreKind.S3, tmp_path / "s3") as location:
        yield location


@pytest.fixture
def cluster(kubeconfig: Path, admin: ApiClient, location: Location) -> Iterator[Cluster]:
    """A cluster with the published application, which has written data."""
    install = ["-m", "kanister_py", "crds", "install", "--only", "blueprints"]
    words = [sys.executable, *install, "--kubeconfig", str(kubeconfig)]
    subprocess.run(words, check=True, capture_output=True)
    make_namespace(admin, "kanister")
    choice = ClusterChoice(kubeconfig=str(kubeconfig), namespace="kanister")
    with KubeCluster(choice) as cluster:
        for manifest in application(location):
            cluster.create(manifest)
        yield cluster
    for path in MADE:
        with suppress(ApiFailed):
            admin.delete(path)


def in_app(cluster: Cluster, script: str) -> bytes:
    """Run a command in the pod of the application once it is ready."""
    with cluster.watch(
        PODS, namespace="default", label_selector="app=time-logger", timeout_seconds=180
    ) as watch:
        name = next(
            event.object["metadata"]["name"]
            for event in watch
            if event.object.get("kind") == "Pod"
            and (event.object.get("status") or {}).get("phase") == "Running"
            and "deletionTimestamp" not in event.object["metadata"]
        )
    with cluster.exec(name, ["sh", "-c", script], namespace="default") as session:
        output = b"".join(chunk.data for chunk in session)
        assert session.exit_code == 0, output
    return output


def test_published_time_log_blueprint_restores_its_data(
    cluster: Cluster, location: Location
) -> None:
    in_app(cluster, "until [ -s /var/log/time.log ]; do sleep 0.1; done; echo kept >/var/log/mark")
    artifacts = act(cluster, "backup")
    in_app(cluster, "echo lost >/var/log/mark")
    act(cluster, "restore", artifacts)
    assert in_app(cluster, "cat /var/log/mark") == b"kept\n"
    act(cluster, "delete", artifacts)
    assert list(object_stores().open(location).list("")) == []
