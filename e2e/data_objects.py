"""A Profile and a pod with data, for tests of data functions on a real API server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice
from kanister_py.core.kube.locations import Location
from kanister_py.core.kube.resources import PODS
from kanister_py.ports.cluster import Cluster
from tests.stores import running_s3

# Only the children of this process: the test looks at all processes of the machine.
KEY, STORE_KEY = f"a-key-nobody-sees-{os.getpid()}", f"a-secret-nobody-sees-{os.getpid()}"


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    with running_s3(tmp_path / "s3", secret=STORE_KEY) as location:
        yield location


@pytest.fixture
def cluster(kubeconfig: Path, namespace: str, location: Location) -> Iterator[Cluster]:
    """A cluster with a Profile, and a pod whose volume has two files."""
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
    choice = ClusterChoice(kubeconfig=str(kubeconfig), namespace=namespace)
    with KubeCluster(choice) as cluster:
        for manifest in objects(location, namespace):
            cluster.create(manifest)
        with cluster.watch(PODS, namespace=namespace, timeout_seconds=60) as watch:
            for event in watch:
                if (event.object.get("status") or {}).get("phase") == "Running":
                    break
        in_app(cluster, namespace, "mkdir /v/sub; echo one >/v/a; echo two >/v/sub/b")
        yield cluster


def objects(location: Location, namespace: str) -> list[dict[str, Any]]:
    pair = {"id": location.credential.id, "secret": location.credential.secret, "key": KEY}
    data = {key: b64encode(value.encode()).decode() for key, value in pair.items()}
    reference = {"name": "creds", "namespace": namespace}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    container = {
        "name": "main",
        "image": "ignored",
        "command": ["sleep", "600"],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": reference, "data": data},
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Profile",
            "metadata": {"name": "s3", "namespace": namespace},
            "location": {
                "type": "s3Compliant",
                "bucket": location.bucket,
                "endpoint": location.endpoint,
                "region": location.region,
            },
            "credential": {
                "type": "keyPair",
                "keyPair": {"idField": "id", "secretField": "secret", "secret": reference},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": namespace},
            "spec": claim,
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "app", "namespace": namespace},
            "spec": {"containers": [container], "volumes": volumes},
        },
    ]


def in_app(cluster: Cluster, namespace: str, script: str) -> bytes:
    with cluster.exec("app", ["sh", "-c", script], namespace=namespace) as session:
        output = b"".join(chunk.data for chunk in session)
        assert session.exit_code == 0, output
    return output
