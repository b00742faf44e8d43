"""BackupData and DeleteData v0.1.0, compared with plain restic commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.core.kube.resources import PODS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.pod_host import PodHost
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.runs import RunSettings, run_actionset
from tests.bench.measure import Row
from tests.stores import running_store

TITLE = "Backups with restic"
MEBIBYTES = int(os.environ.get("BENCH_MEBIBYTES", "1024"))
FILES = 2000
KEY = "a-key-for-tests"


def rows() -> list[Row]:
    if shutil.which("restic") is None:
        return [Row("restic is not installed", "", "")]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with running_store(StoreKind.S3, place / "s3") as location:
            return _measured(place, location)


def _measured(place: Path, location: Location) -> list[Row]:
    with _cluster(place, location) as cluster:
        _fill(place / "state" / "volumes")
        began = time.monotonic()
        done = _run(cluster, "BackupData", {"pod": "app", "includePath": "/v"})
        backup = time.monotonic() - began
        began = time.monotonic()
        _run(cluster, "DeleteData", {"backupID": done["backupID"], "reclaimSpace": True})
        deletion = time.monotonic() - began
        data = next(path.parent for path in (place / "state" / "volumes").rglob("file-0"))
    # The same commands that the functions run.
    bare_backup = _restic(
        location, ["cat", "config"], ["init"], ["snapshots"], ["backup", "--json", str(data)]
    )
    bare_deletion = _restic(location, ["snapshots"], ["forget", "latest"], ["prune"])
    return [
        _compared(f"BackupData of {MEBIBYTES} MiB in {FILES} files", backup, bare_backup),
        _compared("DeleteData with reclaimSpace", deletion, bare_deletion),
    ]


def _compared(name: str, ours: float, bare: float) -> Row:
    limit = 1.1 * bare + 1
    figure = f"{ours:.1f} s, bare {bare:.1f} s"
    return Row(name, figure, f"<= {limit:.1f} s (1.1 of bare, and 1 s)", holds=ours <= limit)


def _restic(location: Location, *commands: list[str]) -> float:
    env = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": location.credential.id,
        "AWS_SECRET_ACCESS_KEY": location.credential.secret,
        "RESTIC_REPOSITORY": f"s3:{location.endpoint}/{location.bucket}/bare",
        "RESTIC_PASSWORD": KEY,
    }
    began = time.monotonic()
    for words in commands:
        subprocess.run(["restic", *words], env=env, capture_output=True, check=False)
    return time.monotonic() - began


def _fill(volumes: Path) -> None:
    (folder,) = [path for path in volumes.rglob("*") if path.is_dir() and not any(path.iterdir())]
    for number in range(FILES):
        (folder / f"file-{number}").write_bytes(os.urandom(MEBIBYTES * 2**20 // FILES))


@contextmanager
def _cluster(place: Path, location: Location) -> Iterator[MemoryCluster]:
    cluster = MemoryCluster(clock=SystemClock())
    runner = ProcessPodRunner(SystemClock(), state=place / "state")
    pods = PodHost(cluster, runner, SystemClock())
    cluster.attach_pods(pods.node)
    pods.start()
    for obj in _objects(location):
        cluster.create(obj)
    with cluster.watch(PODS, timeout_seconds=60) as watch:
        for event in watch:
            if (event.object.get("status") or {}).get("phase") == "Running":
                break
    yield cluster
    pods.close()


def _objects(location: Location) -> list[dict[str, Any]]:
    reference = {"name": "creds", "namespace": "default"}
    pair = {"id": location.credential.id, "secret": location.credential.secret}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": reference, "stringData": pair},
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Profile",
            "metadata": {"name": "s3", "namespace": "default"},
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
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "2Gi"}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "app", "namespace": "default"},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "busybox",
                        "command": ["sleep", "3600"],
                        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                    }
                ],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
            },
        },
    ]


def _run(cluster: MemoryCluster, func: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    common = {"namespace": "default", "encryptionKey": KEY, "backupArtifactPrefix": "ours"}
    phase = {"func": func, "name": "p", "funcVersion": "v0.1.0", "args": {**common, **args}}
    blueprint = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "b", "namespace": "default"},
        "actions": {"act": {"phases": [phase]}},
    }
    action = {
        "name": "act",
        "blueprint": "b",
        "object": {"kind": "Namespace", "name": "default", "namespace": "default"},
        "profile": {"name": "s3", "namespace": "default"},
    }
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"actions": [action]},
    }
    settings = RunSettings(cluster=cluster)
    status = run_actionset(actionset, [blueprint], settings).wait(1200).status
    assert status["state"] == "complete", status["error"]
    output: Mapping[str, Any] = status["actions"][0]["phases"][0].get("output") or {}
    return output
