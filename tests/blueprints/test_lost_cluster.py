"""Disaster recovery of PostgreSQL in a new cluster: schedules, export and restore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kanister_py.cli import export, import_, restore, schedule
from kanister_py.cli.parser import Parser
from kanister_py.controller.controller import Controller, ControllerSettings
from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.install_definitions import read_definitions
from kanister_py.executor.loading import load_function
from kanister_py.ports.cluster import KubeObject
from kanister_py.wiring import (
    attach_pods,
    memory_cluster,
    object_stores,
    process_pods,
    read_functions,
    system_clock,
    system_effects,
)
from tests.blueprints.servers import Server
from tests.conftest import PATIENCE_SECONDS
from tests.stores import running_store

EVERYTHING = "COPY (SELECT * FROM customers ORDER BY id) TO STDOUT;"


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    with running_store(StoreKind.S3, tmp_path / "s3") as location:
        yield location


@contextmanager
def a_cluster(folder: Path) -> Iterator[MemoryCluster]:
    """Run a cluster with pods and a controller during the block."""
    clock = system_clock()
    with ExitStack() as stack:
        cluster = memory_cluster(clock, default_namespace="shop")
        for definition in read_definitions("blueprints"):
            cluster.create(definition)
        runner = stack.enter_context(process_pods(clock, folder))
        attach_pods(cluster, runner, clock, stack)
        controller = Controller(
            cluster,
            FunctionSource(read_functions().registry, load_function),
            clock=clock,
            settings=ControllerSettings(namespaces=("shop",)),
            effects=system_effects(clock),
            stores=object_stores(),
        )
        controller.start()
        stack.callback(controller.kill)
        yield cluster


def application(blueprints: Path, location: Location, *, has_profile: bool) -> Iterator[KubeObject]:
    """Yield the objects of the database and of its backups."""
    for document in parse_documents((blueprints / "postgresql/objects.yaml").read_bytes()):
        manifest: KubeObject = document.value
        if manifest["kind"] == "Profile":
            manifest["location"] |= {
                "bucket": location.bucket,
                "endpoint": location.endpoint,
                "region": location.region,
            }
        elif manifest["metadata"]["name"] == "backups":
            credential = location.credential
            manifest["stringData"] = {"id": credential.id, "secret": credential.secret}
        is_of_backups = manifest["metadata"]["name"] == "backups"
        if manifest["kind"] != "Namespace" and (has_profile or not is_of_backups):
            yield manifest


def call(module: Any, cluster: MemoryCluster, *words: str, **more: Any) -> int:
    parser = Parser(prog="kanister-py", environment={})
    module.add_arguments(parser)
    args: Any = parser.parse_args(list(words))
    args.namespace = "shop"
    run_on = getattr(args, "run_verb", None) or getattr(module, "run_on", None) or module.run
    code: int = run_on(args, cluster, **more)
    return code


def until(cluster: MemoryCluster, resource: Any, wanted: Any) -> KubeObject:
    with cluster.watch(resource, namespace="shop", timeout_seconds=PATIENCE_SECONDS) as events:
        for event in events:
            if event.type in ("ADDED", "MODIFIED") and wanted(event.object):
                return event.object
    raise AssertionError(f"never: {cluster.list(resource).items}")


def ended(name: str) -> Any:
    def has_ended(obj: KubeObject) -> bool:
        state = (obj.get("status") or {}).get("state")
        return bool(obj["metadata"]["name"] == name and state in ("complete", "failed"))

    return has_ended


def run(cluster: MemoryCluster, capsys: pytest.CaptureFixture[str], *words: Any) -> KubeObject:
    capsys.readouterr()
    assert call(words[0], cluster, *words[1:], "-o", "name") == 0
    name = capsys.readouterr().out.strip()
    action_set = until(cluster, ACTION_SETS, ended(name))
    assert action_set["status"]["state"] == "complete", action_set["status"]
    return action_set


def test_backup_of_a_lost_cluster_is_restored_in_another(
    blueprints: Path,
    postgresql: Server,
    location: Location,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    postgresql.ask(
        "CREATE TABLE customers (id bigserial PRIMARY KEY, name text NOT NULL);"
        "INSERT INTO customers (name) SELECT 'Zoë ' || n FROM generate_series(1, 500) n;"
    )
    before = postgresql.ask(EVERYTHING)
    options = f"host=127.0.0.1,port={postgresql.port},database=app"
    file = tmp_path / "export.json"
    with a_cluster(tmp_path / "first") as first:
        for obj in application(blueprints, location, has_profile=True):
            first.create(obj)
        (blueprint,) = parse_documents((blueprints / "postgresql/blueprint.yaml").read_bytes())
        metadata = {**blueprint.value["metadata"], "namespace": "shop"}
        first.create({**blueprint.value, "metadata": metadata})
        words = [
            "create",
            "nightly",
            "--cron",
            "0 2 * * *",
            "-a",
            "backup",
            "-b",
            "postgresql",
            "--statefulset",
            "db",
            "--profile",
            "backups",
            "--options",
            options,
        ]
        assert call(schedule, first, *words) == 0
        run(first, capsys, schedule, "run-now", "nightly")
        assert call(export, first, "--with-secrets", "--file", str(file)) == 0
    postgresql.ask("DROP TABLE customers;")

    with a_cluster(tmp_path / "second") as second:
        exported = import_._read(str(file))
        assert call(import_, second, str(file), exported=exported) == 0
        for obj in application(blueprints, location, has_profile=False):
            second.create(obj)
        run(second, capsys, restore, "nightly")
        assert postgresql.ask(EVERYTHING) == before

        # The schedule continues there, and deletes the old backup once there is a newer one.
        spec = {"suspend": False, "keep": {"last": 1}}
        second.patch(SCHEDULES, "nightly", {"spec": spec}, namespace="shop")
        run(second, capsys, schedule, "run-now", "nightly")

        def has_gone(obj: KubeObject) -> bool:
            notes = obj["metadata"].get("annotations") or {}
            return notes.get("kanister-py.io/artifacts") == "Deleted"

        gone = until(second, ACTION_SETS, has_gone)
        newer = run(second, capsys, restore, "nightly")
        assert newer["metadata"]["annotations"]["kanister-py.io/from"] != gone["metadata"]["name"]
        assert postgresql.ask(EVERYTHING) == before
