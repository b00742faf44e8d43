"""Verbs of `kanister-py schedule`, on a cluster in memory."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from kanister_py.cli import (
    schedule_create,
    schedule_describe,
    schedule_keep,
    schedule_list,
    schedule_next,
    schedule_run_now,
    schedule_suspend,
)
from kanister_py.cli.main import main
from kanister_py.cli.parser import Parser
from kanister_py.core.errors import InvalidDocument, UsageError
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.schedules.runs import run_of
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.cli.test_actionset import cluster
from tests.raising import refused_as

__all__ = ["cluster"]

CREATE = ("nightly", "--cron", "0 2 * * *", "-a", "backup", "-b", "mysql", "--statefulset", "db")


def call(module: Any, cluster: MemoryCluster | None, *words: str, verb: str = "") -> int:
    parser = Parser(prog="kanister-py schedule", environment={})
    module.add_arguments(parser)
    args = parser.parse_args(list(words))
    args.namespace, args.verb = "shop", verb
    code: int = module.run(args, cluster)
    return code


def get(cluster: MemoryCluster, name: str = "nightly") -> dict[str, Any]:
    return cluster.get(SCHEDULES, name, namespace="shop")


def test_a_schedule_is_created_from_flags(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--time-zone", "Europe/Berlin", "--keep-failed", "2", "--labels", "team=db")
    assert call(schedule_create, cluster, *CREATE, *more) == 0
    assert capsys.readouterr().out == "schedule nightly created\n"
    assert get(cluster)["spec"] == {
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


def test_what_would_be_created_is_printed_first(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(schedule_create, cluster, *CREATE, "--dry-run") == 0
    assert yaml.safe_load(capsys.readouterr().out)["kind"] == "Schedule"
    assert cluster.list(SCHEDULES).items == []


def test_a_schedule_that_would_fail_each_time_is_not_created(cluster: MemoryCluster) -> None:
    with refused_as("ActionSetNotFit") as refused:
        call(schedule_create, cluster, *(each.replace("backup", "restore") for each in CREATE))
    assert "has no action restore, only backup" in refused.value.message
    with pytest.raises(InvalidDocument) as never:
        call(schedule_create, cluster, *(each.replace("0 2 * *", "0 2 30 2") for each in CREATE))
    assert "never comes" in never.value.message
    assert cluster.list(SCHEDULES).items == []


def test_the_list_says_when_each_ran_and_runs_next(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call(schedule_create, cluster, *CREATE, "--time-zone", "Europe/Berlin")
    found = get(cluster)
    status = {"nextTimes": ["2099-11-20T01:00:00Z"], "lastState": "complete"}
    cluster.replace_status({**found, "status": status})
    capsys.readouterr()
    assert call(schedule_list, cluster) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "SCHEDULE", "ZONE", "LAST", "STATE", "SUCCESS", "NEXT"]
    assert "complete" in row
    assert "Fri 2099-11-20 02:00:00 CET" in row
    call(schedule_list, cluster, "-A", "-o", "json")
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["status"] == status


def test_an_empty_list_says_so(cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(schedule_list, cluster) == 0
    assert capsys.readouterr().err == "No Schedules in namespace shop\n"


def test_a_schedule_is_described_with_its_runs(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call(schedule_create, cluster, *CREATE, "--concurrency-policy", "Queue", "--jitter", "5m")
    call(schedule_run_now, cluster, "nightly")
    capsys.readouterr()
    assert call(schedule_describe, cluster, "nightly") == 0
    description = capsys.readouterr().out
    for each in ("shop/nightly", "backup of mysql on StatefulSet shop/db", "waits", "nightly-now-"):
        assert each in description


def test_a_schedule_is_suspended_and_resumed(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call(schedule_create, cluster, *CREATE)
    assert call(schedule_suspend, cluster, "nightly", verb="suspend") == 0
    assert get(cluster)["spec"]["suspend"] is True
    assert call(schedule_suspend, cluster, "nightly", verb="resume") == 0
    assert get(cluster)["spec"]["suspend"] is False
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "schedule nightly suspended",
        "schedule nightly resumed",
    ]


def test_a_second_run_is_made_only_by_force(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call(schedule_create, cluster, *CREATE)
    call(schedule_run_now, cluster, "nightly", "-o", "name")
    with pytest.raises(UsageError) as refused:
        call(schedule_run_now, cluster, "nightly")
    assert refused.value.reason == "RunUnderWay"
    assert capsys.readouterr().out.split()[1] in refused.value.message
    assert call(schedule_run_now, cluster, "nightly", "--force") == 0
    made = cluster.list(ACTION_SETS, label_selector="kanister-py.io/schedule=nightly").items
    assert len(made) == 2


def test_a_cron_line_is_told_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--cron", "30 2 * * *", "--time-zone", "Europe/Berlin", "--count", "2")
    assert call(schedule_next, None, *words, "--from", "2026-03-28T12:00:00Z") == 0
    assert capsys.readouterr().out.splitlines() == [
        "Sun 2026-03-29 03:00:00 CEST (in 13h00m)",
        "Mon 2026-03-30 02:30:00 CEST (in 36h30m)",
    ]


def test_the_times_of_a_schedule_have_its_windows_in(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call(schedule_create, cluster, *CREATE)
    windows = [{"schedule": "0 1 * * *", "duration": "4h"}]
    cluster.patch(SCHEDULES, "nightly", {"spec": {"windows": windows}}, namespace="shop")
    capsys.readouterr()
    words = ("nightly", "--from", "2099-03-28T12:00:00Z", "--count", "1", "-o", "json")
    assert call(schedule_next, cluster, *words) == 0
    assert json.loads(capsys.readouterr().out)["nextTimes"] == ["2099-03-29T05:00:00Z"]


def test_next_wants_a_name_or_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "next"]) == 64
    assert "name a Schedule, or give a cron line with --cron" in capsys.readouterr().err


def backup(cluster: MemoryCluster, day: int) -> None:
    found = get(cluster)
    made = cluster.create(run_of(found, f"night-{day}", datetime(2026, 11, day, 1, tzinfo=UTC)))
    artifacts = {"dump": {"keyValue": {"path": f"{day}"}}}
    status = {"state": "complete", "actions": [{"name": "backup", "artifacts": artifacts}]}
    cluster.replace_status({**made, "status": status})


def test_a_calendar_says_what_would_stay_and_why(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call(schedule_create, cluster, *CREATE, "--time-zone", "Europe/Berlin")
    for day in range(12, 20):
        backup(cluster, day)
    capsys.readouterr()
    assert call(schedule_keep, cluster, "nightly", "daily=2", "weekly=2", "--dry-run") == 0
    head, first, *_rows, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["MONTH", "DAY", "WHY", "ACTIONSET"]
    assert first.split() == [
        "November",
        "2026",
        "Thu",
        "19",
        "02:00",
        "stays",
        "daily,",
        "weekly",
        "night-19",
    ]
    assert last == "3 of 8 backups stay"
    assert "keep" not in get(cluster)["spec"]
    call(schedule_keep, cluster, "nightly", "last=1", "--dry-run", "-o", "json")
    found = json.loads(capsys.readouterr().out)
    assert [each["actionSet"] for each in found if each["stays"]] == ["night-19"]
    call(schedule_keep, cluster, "nightly", "--dry-run")
    assert capsys.readouterr().out.splitlines()[-1] == "8 of 8 backups stay"


def test_what_stays_is_said_once(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    call(schedule_create, cluster, *CREATE)
    assert call(schedule_keep, cluster, "nightly", "daily=7", "within=30d") == 0
    assert get(cluster)["spec"]["keep"] == {"daily": 7, "within": "30d"}
    assert "keeps daily=7 within=30d" in capsys.readouterr().out
    with pytest.raises(InvalidDocument):
        call(schedule_keep, cluster, "nightly", "within=1y")
