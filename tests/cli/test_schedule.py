"""Verbs of `kanister-py schedule`, on a cluster in memory."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from kanister_py.cli.main import main
from kanister_py.core.blueprints.options import OptionsInvalid
from kanister_py.core.errors import InvalidDocument, UsageError
from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.schedules.runs import run_of
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.raising import refused_as
from tests.verbs_on_cluster import call_verb

CREATE = ("nightly", "--cron", "0 2 * * *", "-a", "backup", "-b", "mysql", "--statefulset", "db")


def get(cluster: MemoryCluster, name: str = "nightly") -> dict[str, Any]:
    return cluster.get(SCHEDULES, name, namespace="shop")


def test_a_schedule_is_created_from_flags(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--time-zone", "Europe/Berlin", "--keep-failed", "2", "--labels", "team=db")
    assert call_verb(shop_cluster, "schedule", "create", *CREATE, *more) == 0
    assert capsys.readouterr().out == "schedule nightly created\n"
    assert get(shop_cluster)["spec"] == {
        "schedule": "0 2 * * *",
        "timeZone": "Europe/Berlin",
        "historyLimits": {"failed": 2},
        "template": {
            "metadata": {"labels": {"team": "db"}},
            "spec": {
                "actions": [
                    {
                        "name": "backup",
                        "blueprint": "mysql",
                        "object": {
                            "apiVersion": "",
                            "group": "",
                            "resource": "",
                            "kind": "StatefulSet",
                            "name": "db",
                            "namespace": "shop",
                        },
                    }
                ]
            },
        },
    }


def test_create_checks_options_against_declarations(shop_cluster: MemoryCluster) -> None:
    actions = {"backup": {"options": {"level": {"required": True}}}}
    shop_cluster.patch(BLUEPRINTS, "mysql", {"actions": actions}, namespace="shop")
    with pytest.raises(OptionsInvalid) as refused:
        call_verb(shop_cluster, "schedule", "create", *CREATE)
    assert refused.value.message == "Action backup requires the option level, but it is not given"
    assert call_verb(shop_cluster, "schedule", "create", *CREATE, "--options", "level=3") == 0
    (action,) = get(shop_cluster)["spec"]["template"]["spec"]["actions"]
    assert action["options"] == {"level": "3"}


def test_create_with_dry_run_only_prints(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_verb(shop_cluster, "schedule", "create", *CREATE, "--dry-run") == 0
    assert yaml.safe_load(capsys.readouterr().out)["kind"] == "Schedule"
    assert shop_cluster.list(SCHEDULES).items == []


def test_create_refuses_a_schedule_that_cannot_work(shop_cluster: MemoryCluster) -> None:
    with refused_as("ActionSetNotFit") as refused:
        call_verb(
            shop_cluster,
            "schedule",
            "create",
            *(word.replace("backup", "restore") for word in CREATE),
        )
    assert "has no action restore, only backup" in refused.value.message
    with pytest.raises(InvalidDocument) as never:
        call_verb(
            shop_cluster,
            "schedule",
            "create",
            *(word.replace("0 2 * *", "0 2 30 2") for word in CREATE),
        )
    assert "never fires" in never.value.message
    assert shop_cluster.list(SCHEDULES).items == []


def test_list_shows_last_and_next_runs(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call_verb(shop_cluster, "schedule", "create", *CREATE, "--time-zone", "Europe/Berlin")
    schedule = get(shop_cluster)
    status = {"nextTimes": ["2099-11-20T01:00:00Z"], "lastState": "complete"}
    shop_cluster.replace_status({**schedule, "status": status})
    capsys.readouterr()
    assert call_verb(shop_cluster, "schedule", "list") == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "SCHEDULE", "ZONE", "LAST", "STATE", "SUCCESS", "NEXT"]
    assert "complete" in row
    assert "Fri 2099-11-20 02:00:00 CET" in row
    call_verb(shop_cluster, "schedule", "list", "-A", "-o", "json")
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["status"] == status


def test_get_and_delete_take_names(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call_verb(shop_cluster, "schedule", "create", *CREATE)
    capsys.readouterr()
    assert call_verb(shop_cluster, "schedule", "get", "nightly", "-o", "wide") == 0
    assert capsys.readouterr().out.split()[-4:] == ["backup", "mysql", "StatefulSet", "shop/db"]
    assert call_verb(shop_cluster, "schedule", "delete", "nightly") == 0
    assert capsys.readouterr().out == "schedule nightly deleted\n"
    assert shop_cluster.list(SCHEDULES).items == []


def test_an_empty_list_is_reported_on_stderr(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_verb(shop_cluster, "schedule", "list") == 0
    assert capsys.readouterr().err == "No Schedules in namespace shop\n"


def test_describe_shows_actions_and_runs(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call_verb(
        shop_cluster,
        "schedule",
        "create",
        *CREATE,
        "--concurrency-policy",
        "Queue",
        "--jitter",
        "5m",
    )
    call_verb(shop_cluster, "schedule", "run-now", "nightly")
    capsys.readouterr()
    assert call_verb(shop_cluster, "schedule", "describe", "nightly") == 0
    description = capsys.readouterr().out
    for name in (
        "shop/nightly",
        "backup of mysql on StatefulSet shop/db",
        "waits for the running one",
        "nightly-now-",
    ):
        assert name in description


def test_a_schedule_is_suspended_and_resumed(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call_verb(shop_cluster, "schedule", "create", *CREATE)
    assert call_verb(shop_cluster, "schedule", "suspend", "nightly") == 0
    assert get(shop_cluster)["spec"]["suspend"] is True
    assert call_verb(shop_cluster, "schedule", "resume", "nightly") == 0
    assert get(shop_cluster)["spec"]["suspend"] is False
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "schedule nightly suspended",
        "schedule nightly resumed",
    ]


def test_run_now_refuses_an_overlapping_run_without_force(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call_verb(shop_cluster, "schedule", "create", *CREATE)
    call_verb(shop_cluster, "schedule", "run-now", "nightly", "-o", "name")
    with pytest.raises(UsageError) as refused:
        call_verb(shop_cluster, "schedule", "run-now", "nightly")
    assert refused.value.reason == "RunUnderWay"
    assert capsys.readouterr().out.split()[1] in refused.value.message
    assert call_verb(shop_cluster, "schedule", "run-now", "nightly", "--force") == 0
    actionsets = shop_cluster.list(
        ACTION_SETS, label_selector="kanister-py.io/schedule=nightly"
    ).items
    assert len(actionsets) == 2


def test_next_of_a_cron_line_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--cron", "30 2 * * *", "--time-zone", "Europe/Berlin", "--count", "2")
    assert main(["schedule", "next", *words, "--from", "2026-03-28T12:00:00Z"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Sun 2026-03-29 03:00:00 CEST (in 13h00m)",
        "Mon 2026-03-30 02:30:00 CEST (in 36h30m)",
    ]


def test_next_respects_the_windows_of_a_schedule(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call_verb(shop_cluster, "schedule", "create", *CREATE)
    windows = [{"schedule": "0 1 * * *", "duration": "4h"}]
    shop_cluster.patch(SCHEDULES, "nightly", {"spec": {"windows": windows}}, namespace="shop")
    capsys.readouterr()
    words = ("nightly", "--from", "2099-03-28T12:00:00Z", "--count", "1", "-o", "json")
    assert call_verb(shop_cluster, "schedule", "next", *words) == 0
    assert json.loads(capsys.readouterr().out)["nextTimes"] == ["2099-03-29T05:00:00Z"]


def test_next_needs_a_name_or_a_cron_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "next"]) == 64
    assert "name a Schedule, or give a cron line with --cron" in capsys.readouterr().err


def backup(cluster: MemoryCluster, day: int) -> None:
    schedule = get(cluster)
    actionset = cluster.create(
        run_of(schedule, f"night-{day}", datetime(2026, 11, day, 1, tzinfo=UTC))
    )
    artifacts = {"dump": {"keyValue": {"path": f"{day}"}}}
    status = {"state": "complete", "actions": [{"name": "backup", "artifacts": artifacts}]}
    cluster.replace_status({**actionset, "status": status})


def test_keep_with_dry_run_prints_a_calendar(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call_verb(shop_cluster, "schedule", "create", *CREATE, "--time-zone", "Europe/Berlin")
    for day in range(12, 20):
        backup(shop_cluster, day)
    capsys.readouterr()
    assert (
        call_verb(shop_cluster, "schedule", "keep", "nightly", "daily=2", "weekly=2", "--dry-run")
        == 0
    )
    head, first, *_rows, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["MONTH", "DAY", "RULES", "ACTIONSET"]
    assert first.split() == [
        "November",
        "2026",
        "Thu",
        "19",
        "02:00",
        "kept",
        "daily,",
        "weekly",
        "night-19",
    ]
    assert last == "3 of 8 backups are kept"
    assert "keep" not in get(shop_cluster)["spec"]
    call_verb(shop_cluster, "schedule", "keep", "nightly", "last=1", "--dry-run", "-o", "json")
    backups = json.loads(capsys.readouterr().out)
    assert [entry["actionSet"] for entry in backups if entry["stays"]] == ["night-19"]
    call_verb(shop_cluster, "schedule", "keep", "nightly", "--dry-run")
    assert capsys.readouterr().out.splitlines()[-1] == "8 of 8 backups are kept"


def test_keep_stores_the_rules(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call_verb(shop_cluster, "schedule", "create", *CREATE)
    assert call_verb(shop_cluster, "schedule", "keep", "nightly", "daily=7", "within=30d") == 0
    assert get(shop_cluster)["spec"]["keep"] == {"daily": 7, "within": "30d"}
    assert "keeps daily=7 within=30d" in capsys.readouterr().out
    with pytest.raises(InvalidDocument):
        call_verb(shop_cluster, "schedule", "keep", "nightly", "within=1y")
