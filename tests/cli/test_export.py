"""Exports of one cluster, restored on another."""

from __future__ import annotations

import argparse
import json
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli import export, import_, restore
from kanister_py.cli.parser import Parser
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.kube.resources import (
    ACTION_SETS,
    BLUEPRINTS,
    NAMESPACES,
    PROFILES,
    SECRETS,
)
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.schedules.runs import run_of
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.install_definitions import read_definitions
from tests.core.schedules.schedules import schedule


def empty() -> MemoryCluster:
    cluster = MemoryCluster(clock=SystemClock(), default_namespace="shop")
    for definition in read_definitions("blueprints"):
        cluster.create(definition)
    return cluster


def secret(name: str, namespace: str = "shop") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"key": "eA=="}}


@pytest.fixture
def lost() -> MemoryCluster:
    """Return a cluster with a Schedule, its backups, and unrelated objects."""
    cluster = empty()
    key = {"kind": "Secret", "name": "restic", "namespace": "{{ .PVC.Namespace }}"}
    phases = [{"name": "p", "func": "KubeTask", "objects": {"key": key}}]
    claim = {"kind": "PVC", "name": "data", "namespace": "shop"}
    action = {"name": "backup", "blueprint": "files", "object": claim}
    nightly = schedule(namespace="shop", template={"spec": {"actions": [action]}})
    cluster.load(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            secret("creds"),
            secret("restic"),
            secret("nobodys"),
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "Blueprint",
                "metadata": {"name": "files", "namespace": "shop"},
                "actions": {name: {"phases": phases} for name in ("backup", "restore", "delete")},
            },
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "Profile",
                "metadata": {"name": "s3", "namespace": "shop"},
                "location": {"type": "s3Compliant", "bucket": "b"},
                "credential": {"type": "secret", "secret": {"name": "creds", "namespace": "shop"}},
            },
            nightly,
        ]
    )
    for day in (17, 18):
        run = run_of(nightly, f"night-{day}", datetime(2026, 11, day, 2, tzinfo=UTC))
        end(cluster, run, {"files": {"keyValue": {"path": f"night-{day}"}}})
    end(cluster, {**run, "metadata": {"name": "old-style", "namespace": "shop"}}, {"x": {}})
    end(cluster, {**run, "metadata": {"name": "left-nothing", "namespace": "shop"}}, {})
    cluster.create({**run, "metadata": {"name": "under-way", "namespace": "shop"}})
    return cluster


def end(cluster: MemoryCluster, run: Mapping[str, Any], artifacts: Mapping[str, Any]) -> None:
    actionset = cluster.create(run)
    status = {"state": "complete", "actions": [{"name": "backup", "artifacts": artifacts}]}
    cluster.replace_status({**actionset, "status": status})


def call(module: Any, *words: str, **more: Any) -> argparse.Namespace:
    parser = Parser(prog="kanister-py", environment={})
    module.add_arguments(parser)
    args = parser.parse_args(list(words))
    args.namespace = more.get("namespace", "shop")
    return args


def export_to(file: Path, cluster: MemoryCluster, *words: str) -> Path:
    assert export.run_on(call(export, "--file", str(file), *words), cluster) == 0
    return file


def import_from(file: Path, cluster: MemoryCluster, *words: str) -> int:
    args = call(import_, str(file), *words)
    return import_.run_on(args, cluster, import_._read(args.file))


def names(cluster: MemoryCluster, resource: Any) -> list[str]:
    return [obj["metadata"]["name"] for obj in cluster.list(resource).items]


def test_import_creates_the_exported_objects_on_another_cluster(
    lost: MemoryCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = export_to(tmp_path / "shop.json", lost)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    report = capsys.readouterr().err
    assert "Exported 1 profiles, 1 blueprints, 1 schedules, 3 backups" in report
    assert "not in the export: shop/creds, shop/restic" in report
    other = empty()
    assert import_from(file, other) == 0
    assert "shop" in names(other, NAMESPACES)
    assert names(other, BLUEPRINTS) == ["files"]
    assert names(other, PROFILES) == ["s3"]
    assert names(other, SECRETS) == []
    assert names(other, ACTION_SETS) == ["night-17", "night-18", "old-style"]
    (imported,) = other.list(SCHEDULES).items
    assert imported["spec"]["suspend"] is True
    for name in ("night-17", "old-style"):
        before, after = (
            cluster.get(ACTION_SETS, name, namespace="shop") for cluster in (lost, other)
        )
        assert after["status"] == before["status"]
        assert after["spec"] == before["spec"]
    notes = other.get(ACTION_SETS, "night-17", namespace="shop")["metadata"]["annotations"]
    assert notes == {"kanister-py.io/scheduled-at": "2026-11-17T02:00:00Z"}
    capsys.readouterr()
    assert restore.run_on(call(restore, "nightly", "-o", "json"), other) == 0
    exported = json.loads(capsys.readouterr().out)
    assert exported["metadata"]["annotations"]["kanister-py.io/from"] == "night-18"


def test_with_secrets_exports_the_secrets_of_restores(
    lost: MemoryCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = export_to(tmp_path / "all.json", lost, "-A", "--with-secrets")
    other = empty()
    import_from(file, other, "--active")
    assert names(other, SECRETS) == ["creds", "restic"]
    assert "suspend" not in other.list(SCHEDULES).items[0]["spec"]
    assert "note:" not in capsys.readouterr().err


def test_second_import_changes_nothing(
    lost: MemoryCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = export_to(tmp_path / "shop.json", lost)
    other = empty()
    import_from(file, other, "--dry-run")
    assert "ActionSet shop/night-17 would be created" in capsys.readouterr().out
    assert names(other, ACTION_SETS) == []
    import_from(file, other)
    before = other.list(ACTION_SETS).items
    capsys.readouterr()
    import_from(file, other)
    assert "0 created, 6 exist already" in capsys.readouterr().err
    assert other.list(ACTION_SETS).items == before


@pytest.mark.parametrize("writes", range(1, 4))
def test_interrupted_import_can_be_repeated(
    lost: MemoryCluster, tmp_path: Path, writes: int
) -> None:
    file = export_to(tmp_path / "shop.json", lost)
    other = empty()

    class BreaksOff:
        """A cluster that is unavailable after some writes of ActionSets."""

        left = writes

        def __getattr__(self, name: str) -> Any:
            attribute = getattr(other, name)

            def call(*args: Any, **options: Any) -> Any:
                is_record = bool(args) and isinstance(args[0], dict)
                if is_record and args[0].get("kind") == "ActionSet":
                    self.left -= 1
                    if self.left < 0:
                        raise ConnectionError
                return attribute(*args, **options)

            return call if name in ("create", "replace", "replace_status") else attribute

    broken: Any = BreaksOff()
    with pytest.raises(ConnectionError):
        import_from(file, broken)
    import_from(file, other)
    for obj in other.list(ACTION_SETS).items:
        assert obj["status"]["state"] == "complete"
        assert "suspend" not in obj["spec"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "Must be an Export of kanister-py.io/v1alpha1"),
        (
            "no json",
            "an export of `kanister-py export`, which is JSON: it is not valid at line 1, column 1",
        ),
        (
            '{"apiVersion": "kanister-py.io/v1alpha1", "kind": "Export", "backups": [{}]}',
            "backups[0].kind",
        ),
    ],
)
def test_invalid_exports_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    with pytest.raises(InvalidDocument) as refused:
        import_from(file, empty())
    assert problem in refused.value.message
