"""Blueprints of Kanister's examples folder that are not among the recorded ones, unmodified.

`KANISTER_PY_PUBLISHED` names that folder; without it these tests are not collected.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.core.yaml.documents import parse_document
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.pod_host import PodHost
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.ports.cluster import Cluster
from kanister_py.runs import RunSettings, run_actionset
from kanister_py.wiring import object_stores
from tests.stores import running_store

PUBLISHED = Path(os.environ["KANISTER_PY_PUBLISHED"])
PASSWORD = "change-me"
POSTGRESQL = "pg-postgresql.app.svc.cluster.local"


class ExampleCluster(NamedTuple):
    """A cluster with a Profile and running pods."""

    cluster: Cluster
    pods: PodHost
    location: Location

    def apply(self, obj: Mapping[str, Any]) -> None:
        self.cluster.create(dict(obj))
        self.pods.wait_until_workloads_ready(lambda: True)

    def act(self, file: str, action: str, name: str, artifacts: Any = None) -> Any:
        """Run an action on a StatefulSet; return its artifacts."""
        blueprint = parse_document((PUBLISHED / file).read_bytes(), file).value
        fields = {
            "name": action,
            "blueprint": blueprint["metadata"]["name"],
            "object": {"kind": "StatefulSet", "name": name, "namespace": "app"},
            "profile": {"name": "s3", "namespace": "app"},
            "artifacts": artifacts or {},
        }
        actionset = {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "ActionSet",
            "metadata": {"name": action, "namespace": "app"},
            "spec": {"actions": [fields]},
        }
        settings = RunSettings(cluster=self.cluster, namespace="app")
        status = run_actionset(actionset, [blueprint], settings).wait(300).status
        assert status["state"] == "complete", status["error"]
        self.pods.wait_until_workloads_ready(lambda: True)
        return status["actions"][0].get("artifacts")

    def inside(self, pod: str, script: str) -> bytes:
        with self.cluster.exec(pod, ["bash", "-c", script], namespace="app") as session:
            output = b"".join(chunk.data for chunk in session)
            assert session.exit_code == 0, output
        return output

    def snapshots(self) -> list[str]:
        """Return the keys of snapshots in the bucket."""
        listed = object_stores().open(self.location).list("")
        return [obj.key for obj in listed if "/snapshots/" in obj.key]


@pytest.fixture
def example_cluster(tmp_path: Path) -> Iterator[ExampleCluster]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    cluster = MemoryCluster(clock=SystemClock(), default_namespace="app")
    pods = PodHost(cluster, ProcessPodRunner(SystemClock(), state=tmp_path), SystemClock())
    cluster.attach_pods(pods.node)
    pods.start()
    with running_store(StoreKind.S3, tmp_path / "s3") as location:
        keys = {"id": location.credential.id, "secret": location.credential.secret}
        cluster.create(secret("keys", keys))
        pair = {"idField": "id", "secretField": "secret"}
        pair["secret"] = {"name": "keys", "namespace": "app"}  # type: ignore[assignment] # JSON
        cluster.create(
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "Profile",
                "metadata": {"name": "s3", "namespace": "app"},
                "location": {
                    "type": "s3Compliant",
                    "bucket": location.bucket,
                    "endpoint": location.endpoint,
                    "region": location.region,
                },
                "credential": {"type": "keyPair", "keyPair": pair},
            }
        )
        yield ExampleCluster(cluster, pods, location)
        pods.close()


def secret(name: str, data: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "app"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(data)}


def stateful_set(
    name: str, release: str, script: str, container: str, folder: str, replicas: int = 1
) -> dict[str, Any]:
    """Return an application with a volume, named as in the charts of the examples."""
    labels = {"app.kubernetes.io/instance": release, "app": name}
    main = {
        "name": container,
        "image": "ignored",
        "command": ["bash", "-c", script],
        "volumeMounts": [{"name": "datadir", "mountPath": folder}],
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "app", "labels": labels},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [main]}},
            "volumeClaimTemplates": [{"metadata": {"name": "datadir"}, "spec": claim}],
        },
    }


def test_files_of_mongodb_are_restored(example_cluster: ExampleCluster) -> None:
    """A fake server is enough: the blueprint copies files and does not connect to it."""
    name, data = "my-release-mongodb", "/bitnami/mongodb/data/db"
    server = f"mkdir -p {data}; exec sleep 900"
    example_cluster.apply(
        stateful_set(name, "my-release", server, "mongodb", "/bitnami/mongodb", 2)
    )
    example_cluster.apply(
        stateful_set(f"{name}-arbiter", "my-release", "exec sleep 900", "mongodb", "/x")
    )
    file = "mongodb-restic/mongodb-blueprint.yaml"
    example_cluster.inside(f"{name}-0", f"echo kept >{data}/doc")
    artifacts = example_cluster.act(file, "backup", name)
    example_cluster.inside(f"{name}-0", f"echo lost >{data}/doc")
    example_cluster.act(file, "restore", name, artifacts)
    assert example_cluster.inside(f"{name}-0", f"cat {data}/doc") == b"kept\n"
    example_cluster.act(file, "delete", name, artifacts)
    assert example_cluster.snapshots() == []


def test_running_postgresql_is_restored(example_cluster: ExampleCluster) -> None:
    """A real server, with the host name that the blueprint uses.

    The name resolves under `unshare -mn` with `lo` up and a line in /etc/hosts.
    """
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if not places:
        pytest.skip("initdb is not installed: apt-get install postgresql")
    try:
        socket.gethostbyname(POSTGRESQL)
    except OSError:
        pytest.skip(f"{POSTGRESQL} leads nowhere here")
    name, data, login = "pg-postgresql", "/bitnami/data", f"PGPASSWORD={PASSWORD}"
    as_user = "setpriv --reuid=postgres --regid=postgres --clear-groups"
    server = f"""
        set -e; export PATH="$PATH:{places[0]}"
        chown postgres /bitnami; rm -f {data}/postmaster.pid
        echo {PASSWORD} >/tmp/password; chmod 644 /tmp/password
        [ -d {data} ] || {as_user} initdb -D {data} -U postgres --auth=scram-sha-256 \
            --pwfile=/tmp/password --no-sync
        exec {as_user} postgres -D {data} -c unix_socket_directories=/bitnami
    """
    example_cluster.cluster.create(secret(name, {"postgres-password": PASSWORD}))
    example_cluster.apply(stateful_set(name, "pg", server, "postgresql", "/bitnami"))

    def ask(text: str) -> bytes:
        psql = f"{login} psql -h 127.0.0.1 -U postgres -At"
        ready = f"for _ in $(seq 300); do {psql} -c ';' 2>/dev/null && break; sleep 0.1; done"
        return example_cluster.inside(f"{name}-0", f"{ready}; {psql} -c '{text}'")

    ask("CREATE TABLE t AS SELECT generate_series(1, 1000) AS n")
    file = "postgresql/postgres-start-stop-blueprint.yaml"
    artifacts = example_cluster.act(file, "backup", name)
    ask("DROP TABLE t")
    example_cluster.act(file, "restore", name, artifacts)
    assert ask("SELECT count(*) FROM t") == b"1000\n"
    example_cluster.act(file, "delete", name, artifacts)
    assert example_cluster.snapshots() == []
