"""Data functions on a real API server and its node: real restic, real pods, a real S3 server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.data_objects import KEY, STORE_KEY, cluster, in_app, location
from kanister_py.core.kube.locations import Location
from kanister_py.core.kube.resources import EVENTS, PODS, SECRETS
from kanister_py.ports.cluster import Cluster
from kanister_py.runs import RunSettings, run_actionset
from kanister_py.wiring import object_stores

__all__ = ["cluster", "location"]

pytestmark = pytest.mark.usefixtures("node")


def run(
    cluster: Cluster, namespace: str, func: str, version: str, args: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Run one phase, and return its output."""
    key = '{{ index .Phases.p.Secrets.creds.Data "key" | toString }}'
    phase = {
        "func": func,
        "name": "p",
        "funcVersion": version,
        "objects": {"creds": {"kind": "Secret", "name": "creds", "namespace": namespace}},
        "args": {"namespace": namespace, "encryptionKey": key, **args},
    }
    metadata = {"name": "data", "namespace": namespace}
    blueprint = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": metadata,
        "actions": {"act": {"phases": [phase]}},
    }
    action = {
        "name": "act",
        "blueprint": "data",
        "object": {"kind": "Namespace", "name": namespace, "namespace": namespace},
        "profile": {"name": "s3", "namespace": namespace},
    }
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"actions": [action]},
    }
    heard = Heard()
    settings = RunSettings(cluster=cluster, namespace=namespace, observer=heard)
    with looking(cluster, namespace) as seen:
        status = run_actionset(actionset, [blueprint], settings).wait(180).status
    assert status["state"] == "complete", status["error"]
    events = cluster.list(EVENTS, namespace=namespace).items
    visible_text = json.dumps([status, events, seen.pods]) + "".join(heard.lines)
    # v0.0.0 backs up in the application's own pod.
    assert seen.pods or (func, version) == ("BackupData", "v0.0.0")
    for secret in (KEY, STORE_KEY):
        assert secret not in visible_text
        # As in the original, v0.0.0 has the key on its command line.
        assert version == "v0.0.0" or secret.encode() not in b"".join(seen.commands)
    output: Mapping[str, Any] = status["actions"][0]["phases"][0].get("output") or {}
    return output


class Heard:
    """Return everything that a run prints."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_outcome(self, outcome: object, status: object) -> None:
        self.lines.append(f"{outcome} {status}")

    def on_log(self, action: str, phase: str, line: str) -> None:
        self.lines.append(f"{action} {phase} {line}")


class Observed(NamedTuple):
    """All pods and all command lines that were observed."""

    pods: list[Mapping[str, Any]]
    commands: set[bytes]


@contextmanager
def looking(cluster: Cluster, namespace: str) -> Iterator[Observed]:
    """Observe pods and processes during the block."""
    seen, is_over = Observed([], set()), threading.Event()
    before = cluster.list(PODS, namespace=namespace).resource_version

    def look() -> None:
        while not is_over.wait(0.005):
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    seen.commands.add(process.read_bytes())

    looker = threading.Thread(target=look)
    looker.start()
    try:
        yield seen
    finally:
        is_over.set()
        looker.join()
    with cluster.watch(
        PODS, namespace=namespace, resource_version=before, timeout_seconds=3
    ) as watch:
        seen.pods.extend(event.object for event in watch)


@pytest.mark.parametrize("version", ["v0.0.0", "v0.1.0"])
def test_folder_is_restored_and_nothing_is_left(
    cluster: Cluster, namespace: str, location: Location, version: str
) -> None:
    place = {"backupArtifactPrefix": "repo"}
    backup = {**place, "pod": "app", "container": "main", "includePath": "/v"}
    done = run(cluster, namespace, "BackupData", version, backup)
    assert done["fileCount"] == "2"
    in_app(cluster, namespace, "rm -r /v/a /v/sub; echo new >/v/c")
    restore = {
        **place,
        "image": "tools",
        "volumes": {"data": "/v"},
        "backupIdentifier": done["backupID"],
    }
    run(cluster, namespace, "RestoreData", version, restore)
    assert in_app(cluster, namespace, "cd /v; cat a sub/b c") == b"one\ntwo\nnew\n"
    delete = {**place, "backupID": done["backupID"], "reclaimSpace": True}
    run(cluster, namespace, "DeleteData", version, delete)
    left = [pod["metadata"]["name"] for pod in cluster.list(PODS, namespace=namespace)]
    assert left == ["app"]
    secrets = [secret["metadata"]["name"] for secret in cluster.list(SECRETS, namespace=namespace)]
    assert secrets == ["creds"]
    store = object_stores().open(location)
    assert [entry.key for entry in store.list("repo/snapshots/")] == []
