"""Applications and ActionSets that Kanister publishes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.core.yaml.documents import parse_document, parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.pod_host import PodHost
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.ports.cluster import Cluster
from kanister_py.runs import RunSettings, run_actionset
from tests.stores import running_store

TIME_LOG = Path(os.environ["KANISTER_PY_RECORDED"]).parent / "corpus" / "blueprints" / "time-log"


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    with running_store(StoreKind.S3, tmp_path / "s3") as location:
        yield location


@pytest.fixture
def cluster(tmp_path: Path, location: Location) -> Iterator[Cluster]:
    """A cluster with the published application and a complete Profile."""
    cluster = MemoryCluster(clock=SystemClock(), default_namespace="kanister")
    pods = PodHost(cluster, ProcessPodRunner(SystemClock(), state=tmp_path), SystemClock())
    cluster.attach_pods(pods.node)
    pods.start()
    for obj in application(location):
        cluster.create(obj)
    pods.wait_until_workloads_ready(lambda: True)
    yield cluster
    pods.close()


def application(location: Location) -> Iterator[dict[str, Any]]:
    """Yield the published application, and its Profile with values filled in."""
    for document in parse_documents((TIME_LOG / "time-logger-deployment.yaml").read_bytes()):
        obj = document.value
        obj["metadata"]["namespace"] = "default"
        yield obj
    profile = parse_document((TIME_LOG / "s3-profile.yaml").read_bytes(), "profile").value
    profile["location"] |= {
        "bucket": location.bucket,
        "endpoint": location.endpoint,
        "prefix": "",
        "region": location.region,
    }
    yield profile
    yield {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "aws-creds", "namespace": "kanister"},
        "stringData": {
            "aws_access_key_id": location.credential.id,
            "aws_secret_access_key": location.credential.secret,
        },
    }


def act(cluster: Cluster, action: str, artifacts: Mapping[str, Any] | None = None) -> Any:
    """Run an action of the blueprint; return its artifacts."""
    blueprint = parse_document((TIME_LOG / "blueprint.yaml").read_bytes(), "blueprint").value
    actionset = parse_document((TIME_LOG / "backup-actionset.yaml").read_bytes(), "set").value
    (fields,) = actionset["spec"]["actions"]
    fields |= {"name": action, **({"artifacts": dict(artifacts)} if artifacts else {})}
    settings = RunSettings(cluster=cluster, namespace="kanister")
    status = run_actionset(actionset, [blueprint], settings).wait(180).status
    assert status["state"] == "complete", status["error"]
    return status["actions"][0].get("artifacts")
