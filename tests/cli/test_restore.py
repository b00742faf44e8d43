"""`kanister-py restore`: chosen backups and created ActionSets."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from kanister_py.cli import restore
from kanister_py.cli.parser import Parser
from kanister_py.cli.restore import RestoreUnclear
from kanister_py.core.actionsets.stored_status import ARTIFACTS_ANNOTATION, DELETED
from kanister_py.core.blueprints.options import OptionsInvalid
from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS
from kanister_py.core.schedules.deletions import Deletion, deletion_of
from kanister_py.core.schedules.runs import NoBackup, read_run, run_of
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.core.schedules.schedules import schedule

BLUEPRINT = {
    "apiVersion": "cr.kanister.io/v1alpha1",
    "kind": "Blueprint",
    "metadata": {"name": "made-up", "namespace": "shop"},
    "actions": {
        "backup": {"phases": [{"name": "p", "func": "KubeTask"}]},
        "restore": {
            "phases": [
                {"name": "p", "func": "KubeTask", "args": {"namespace": "{{ .PVC.Namespace }}"}}
            ]
        },
        "wipe": {
            "phases": [
                {"name": "p", "func": "KubeTask", "args": {"namespace": "{{ .Namespace.Name }}"}}
            ]
        },
    },
}


@pytest.fixture
def cluster(shop_cluster: MemoryCluster) -> MemoryCluster:
    """A cluster with three backups of the Schedule `nightly`."""
    shop_cluster.create(BLUEPRINT)
    for day in (17, 18, 19):
        backup(shop_cluster, day)
    return shop_cluster


def backup(cluster: MemoryCluster, day: int, state: str = "complete", **artifact: str) -> None:
    claim = {"kind": "PVC", "name": "data", "namespace": "shop"}
    action = {"name": "backup", "blueprint": "made-up", "object": claim}
    nightly = schedule(namespace="shop", template={"spec": {"actions": [action]}})
    actionset = cluster.create(
        run_of(nightly, f"night-{day}", datetime(2026, 11, day, 2, tzinfo=UTC))
    )
    artifacts = {"files": {"keyValue": {"path": f"night-{day}", **artifact}}}
    left = [{"name": "backup", "artifacts": artifacts}]
    cluster.replace_status({**actionset, "status": {"state": state, "actions": left}})


def call(cluster: MemoryCluster, *words: str) -> int:
    parser = Parser(prog="kanister-py restore", environment={})
    restore.add_arguments(parser)
    args: argparse.Namespace = parser.parse_args(list(words))
    args.namespace = "shop"
    return restore.run_on(args, cluster)


def made(capsys: pytest.CaptureFixture[str], cluster: MemoryCluster, *words: str) -> Any:
    capsys.readouterr()
    assert call(cluster, *words, "--dry-run") == 0
    return yaml.safe_load(capsys.readouterr().out)


def test_newest_backup_of_a_schedule_is_restored_to_its_object(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(cluster, "nightly", "-o", "name") == 0
    shown = capsys.readouterr()
    created = cluster.get(ACTION_SETS, shown.out.strip(), namespace="shop")
    assert created["metadata"]["annotations"] == {"kanister-py.io/from": "night-19"}
    (action,) = created["spec"]["actions"]
    assert (action["name"], action["blueprint"]) == ("restore", "made-up")
    assert action["object"] == {"kind": "PVC", "name": "data", "namespace": "shop"}
    assert action["artifacts"]["files"]["keyValue"]["path"] == "night-19"
    assert "Restores night-19, of 2026-11-19T02:00:00Z" in shown.err
    assert "restore of made-up on PVC shop/data" in shown.err
    assert "kanister-py.io/schedule" not in created["metadata"].get("labels", {})


def test_newest_backup_before_a_time_is_restored(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    actionset = made(capsys, cluster, "nightly", "--at", "2026-11-18T23:00:00Z")
    assert actionset["metadata"]["annotations"]["kanister-py.io/from"] == "night-18"
    with pytest.raises(NoBackup) as refused:
        call(cluster, "nightly", "--at", "2026-11-01T00:00:00Z")
    assert "the oldest is night-17" in refused.value.message


def test_actionset_is_restored_to_another_object(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    actionset = made(capsys, cluster, "night-17", "--to", "pvc/other/copy", "--options", "a=b")
    (action,) = actionset["spec"]["actions"]
    assert action["object"]["kind"] == "PVC"
    assert (action["object"]["namespace"], action["object"]["name"]) == ("other", "copy")
    assert action["options"] == {"a": "b"}


def test_action_on_a_namespace_gets_the_namespace(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    (action,) = made(capsys, cluster, "nightly", "-a", "wipe")["spec"]["actions"]
    assert action["object"] == {"kind": "Namespace", "name": "shop", "namespace": "shop"}


def test_deleted_backups_are_not_restored(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    note = {"metadata": {"annotations": {ARTIFACTS_ANNOTATION: DELETED}}}
    cluster.patch(ACTION_SETS, "night-19", note, namespace="shop")
    leaves = cluster.get(ACTION_SETS, "night-18", namespace="shop")
    cluster.create(deletion_of(Deletion(read_run(leaves)), leaves, {}))
    actionset = made(capsys, cluster, "nightly")
    assert actionset["metadata"]["annotations"]["kanister-py.io/from"] == "night-17"
    for name in ("night-19", "night-18"):
        with pytest.raises(NoBackup):
            call(cluster, name)
    call(cluster, "nightly", "--list", "-o", "json")
    listed = json.loads(capsys.readouterr().out)
    assert [(entry["actionSet"], entry["isLeaving"]) for entry in listed] == [
        ("night-18", True),
        ("night-17", False),
    ]


def test_failed_and_running_actionsets_are_not_backups(cluster: MemoryCluster) -> None:
    backup(cluster, 20, "failed")
    with pytest.raises(NoBackup):
        call(cluster, "night-20")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nobody"], "There is no Schedule or ActionSet nobody in namespace shop"),
        (["schedule/night-17"], "There is no schedule night-17"),
        (["nightly", "-a", "undo"], "has no action undo, only backup, restore, wipe"),
    ],
)
def test_unknown_names_are_reported(cluster: MemoryCluster, words: list[str], problem: str) -> None:
    with pytest.raises(RestoreUnclear) as refused:
        call(cluster, *words)
    assert problem in refused.value.message


def test_ambiguous_name_is_refused(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create(
        {
            **cluster.get(ACTION_SETS, "night-17", namespace="shop"),
            "metadata": {"name": "nightly", "namespace": "shop"},
        }
    )
    with pytest.raises(RestoreUnclear):
        call(cluster, "nightly")
    actionset = made(capsys, cluster, "schedule/nightly")
    assert actionset["metadata"]["annotations"]["kanister-py.io/from"] == "night-19"


def test_backups_are_listed(cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(cluster, "nightly", "--list") == 0
    assert capsys.readouterr().out.split()[:4] == [
        "TIME",
        "ACTIONSET",
        "2026-11-19T02:00:00Z",
        "night-19",
    ]


def declare_level(cluster: MemoryCluster) -> None:
    """Declare the option `level` for the restore, and add an option to the newest backup."""
    blueprint = cluster.get(BLUEPRINTS, "made-up", namespace="shop")
    blueprint["actions"]["restore"]["options"] = {"level": {"type": "integer"}}
    cluster.replace(blueprint)
    newest = cluster.get(ACTION_SETS, "night-19", namespace="shop")
    newest["spec"]["actions"][0]["options"] = {"compress": "yes"}
    cluster.replace(newest)


def test_options_of_the_backup_that_the_restore_does_not_declare_are_left_out(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    declare_level(cluster)
    assert "options" not in made(capsys, cluster, "nightly")["spec"]["actions"][0]
    (action,) = made(capsys, cluster, "nightly", "--options", "level=3")["spec"]["actions"]
    assert action["options"] == {"level": "3"}


def test_options_that_contradict_declarations_are_refused(cluster: MemoryCluster) -> None:
    declare_level(cluster)
    with pytest.raises(OptionsInvalid) as refused:
        call(cluster, "nightly", "--options", "level=high,levle=1")
    assert refused.value.message == (
        "Option level of action restore must be an integer, found 'high'; "
        "Action restore has no option levle; did you mean level?"
    )


def test_an_option_that_the_restore_does_not_read_is_reported(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(cluster, "nightly", "--options", "level=3", "--dry-run") == 0
    assert "Option level is set, but action restore does not use it" in capsys.readouterr().err
