"""Verbs of `kanister-py actionset`, on a cluster in memory."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from threading import Thread
from typing import Any

import pytest
import yaml

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli import (
    actionset_cancel,
    actionset_create,
    actionset_get,
    actionset_logs,
    actionset_retry,
    actionset_watch,
)
from kanister_py.cli.parser import CommandLineError, Parser
from kanister_py.cli.streams import patient
from kanister_py.cli.view import PlainView
from kanister_py.core.actionsets.status import Status, parse_status
from kanister_py.core.errors import NotFound, UsageError
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.actionset_requests import ActionSetState
from kanister_py.executor.install_definitions import read_definitions
from kanister_py.ports.clock import Clock
from kanister_py.ports.phase_lines import PrintedLine
from tests.fake_clock import FakeClock
from tests.raising import refused_as

Run = Callable[..., int]


@pytest.fixture
def cluster() -> MemoryCluster:
    made = MemoryCluster(clock=SystemClock(), default_namespace="shop")
    for each in read_definitions("blueprints"):
        made.create(each)
    labels = {"app": "db"}
    made.load(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            workload("StatefulSet", "db", labels),
            workload("Deployment", "web", labels),
            workload("Deployment", "other", {"app": "x"}),
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "Blueprint",
                "metadata": {"name": "mysql", "namespace": "shop"},
                "actions": {"backup": {"phases": [{"name": "dump", "func": "KubeTask"}]}},
            },
        ]
    )
    return made


def workload(kind: str, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "labels": dict(labels)},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
        },
    }


def call(module: Any, cluster: MemoryCluster, *words: str, namespace: str = "shop") -> int:
    parser = Parser(prog="kanister-py actionset", environment={})
    module.add_arguments(parser)
    args = parser.parse_args(list(words))
    args.namespace = namespace
    code: int = module.run(args, cluster)
    return code


def actionset(cluster: MemoryCluster, name: str, **status: Any) -> None:
    reference = {"kind": "StatefulSet", "name": "db", "namespace": "shop"}
    made = cluster.create(
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "ActionSet",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"actions": [{"name": "backup", "blueprint": "mysql", "object": reference}]},
        }
    )
    if status:
        cluster.replace_status({**made, "status": status})


def phases(state: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": "backup", "phases": [{"name": "dump", "state": state, **more}]}]


def created(cluster: MemoryCluster) -> dict[str, Any]:
    (found,) = cluster.list(ACTION_SETS).items
    return found


# create


def test_what_was_created_is_printed_without_what_the_cluster_notes_for_itself(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("-a", "backup", "-b", "mysql", "-t", "shop/db", "--output", "json")
    assert call(actionset_create, cluster, *words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["metadata"]["uid"] == created(cluster)["metadata"]["uid"]
    assert "managedFields" in created(cluster)["metadata"]
    assert "managedFields" not in printed["metadata"]


def test_a_workload_that_is_named_gets_an_action(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("-a", "backup", "-b", "mysql", "--statefulset", "shop/db", "--name", "one")
    assert call(actionset_create, cluster, *words, "-o", "a=1,2,b=x=y") == 0
    assert capsys.readouterr().out == "actionset one created\n"
    (action,) = created(cluster)["spec"]["actions"]
    assert action["object"]["kind"] == "StatefulSet"
    assert action["options"] == {"a": "1,2", "b": "x=y"}


def test_objects_are_chosen_by_their_labels_and_kind(cluster: MemoryCluster) -> None:
    words = ("-a", "backup", "-b", "mysql", "-l", "app=db")
    assert call(actionset_create, cluster, *words) == 0
    actions = created(cluster)["spec"]["actions"]
    assert [each["object"]["name"] for each in actions] == ["web", "db"]


def test_any_object_is_named_by_its_group_without_a_stray_slash(cluster: MemoryCluster) -> None:
    words = ("-a", "backup", "-b", "mysql", "-O", "apps/v1/deployments/shop/web")
    assert call(actionset_create, cluster, *words) == 0
    (action,) = created(cluster)["spec"]["actions"]
    assert action["object"]["group"] == "apps"


def test_a_namespace_that_is_chosen_by_label_is_named_in_full(cluster: MemoryCluster) -> None:
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "billing", "labels": {"app": "db"}},
        }
    )
    words = ("-a", "backup", "-b", "mysql", "-l", "app=db", "-k", "namespace")
    assert call(actionset_create, cluster, *words) == 0
    (action,) = created(cluster)["spec"]["actions"]
    assert (action["object"]["name"], action["object"]["namespace"]) == ("billing", "billing")


def test_everything_that_is_missing_is_said_at_once_and_nothing_is_made(
    cluster: MemoryCluster,
) -> None:
    words = ("-a", "restore", "-b", "mysql", "-t", "shop/gone", "-p", "s3", "-s", "x=shop/key")
    with refused_as("ActionSetNotFit") as caught:
        call(actionset_create, cluster, *words)
    assert caught.value.message.split("; ")[:-1] == [
        "Blueprint shop/mysql has no action restore, only backup",
        "There is no StatefulSet shop/gone",
        "There is no profile shop/s3",
        "There is no secret shop/key",
    ]
    assert cluster.list(ACTION_SETS).items == []


def test_without_validation_it_is_created_all_the_same(cluster: MemoryCluster) -> None:
    words = ("-a", "backup", "-b", "none", "-t", "shop/gone", "--skip-validation")
    assert call(actionset_create, cluster, *words) == 0
    assert created(cluster)["spec"]["actions"][0]["blueprint"] == "none"


def test_a_dry_run_prints_what_it_would_create(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("-a", "backup", "-b", "mysql", "-t", "shop/db", "--dry-run")
    assert call(actionset_create, cluster, *words) == 0
    assert yaml.safe_load(capsys.readouterr().out)["kind"] == "ActionSet"
    assert cluster.list(ACTION_SETS).items == []


def test_an_option_without_a_value_is_refused(cluster: MemoryCluster) -> None:
    with pytest.raises(CommandLineError, match="-o/--options: must be KEY=VALUE"):
        call(actionset_create, cluster, "-a", "backup", "-b", "mysql", "-t", "shop/db", "-o", "x")


# get


def test_actionsets_are_listed_as_far_as_they_are(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    actionset(cluster, "fresh")
    progress = {"percentCompleted": "50", "runningPhase": "dump"}
    actionset(cluster, "working", state="running", progress=progress)
    actionset(cluster, "broken", state="failed", error={"message": "no\nluck"})
    assert call(actionset_get, cluster) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert rows["fresh"].split()[1:5] == ["pending", "-", "-", "-"]
    assert rows["working"].split()[1:4] == ["running", "50%", "dump"]
    assert rows["broken"].endswith("no luck")


def test_one_that_is_named_is_printed_alone_for_programs(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    actionset(cluster, "one", state="complete")
    assert call(actionset_get, cluster, "one", "-o", "json") == 0
    read = json.loads(capsys.readouterr().out)
    assert (read["kind"], read["status"]["state"]) == ("ActionSet", "complete")
    assert call(actionset_get, cluster, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "List"
    assert call(actionset_get, cluster, "-o", "name") == 0
    assert capsys.readouterr().out == "one\n"


def test_one_that_is_not_there_is_an_error(cluster: MemoryCluster) -> None:
    with pytest.raises(NotFound):
        call(actionset_get, cluster, "nobody")


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param([], "No ActionSets in namespace shop\n", id="in a namespace"),
        pytest.param(["-A"], "No ActionSets in any namespace\n", id="anywhere"),
        pytest.param(
            ["-l", "app=db", "-o", "name"],
            "No ActionSets in namespace shop with labels app=db\n",
            id="of some labels",
        ),
        pytest.param(["-o", "json"], "", id="for a program, which sees the empty list"),
    ],
)
def test_where_there_are_none_it_is_said_beside_the_data(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str], words: list[str], want: str
) -> None:
    assert call(actionset_get, cluster, *words) == 0
    output = capsys.readouterr()
    assert output.err == want
    assert output.out == "" or json.loads(output.out)["items"] == []


def test_none_in_a_namespace_that_is_not_there_is_said_too(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(actionset_get, cluster, namespace="shopp") == 0
    assert "no namespace shopp; did you mean shop?" in capsys.readouterr().err


# logs


class PortionedLog:
    """Log lines in portions, one for each call."""

    def __init__(self, *portions: Sequence[PrintedLine]) -> None:
        self._portions = list(portions)

    def new_lines(self, actionset: Mapping[str, Any]) -> Iterator[PrintedLine]:
        yield from self._portions.pop(0) if self._portions else ()


def logs_of(
    cluster: MemoryCluster, source: PortionedLog, *words: str, clock: Clock | None = None
) -> None:
    parser = Parser(prog="kanister-py actionset", environment={})
    actionset_logs.add_arguments(parser)
    args = parser.parse_args(["one", *words])
    args.namespace = "shop"
    assert actionset_logs.print_lines(args, cluster, source, clock or FakeClock()) == 0


DUMPED = PrintedLine("2026-01-01T00:00:00Z", "backup", "dump", "3 rows")


def test_lines_are_printed_with_the_phase_that_wrote_them(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    actionset(cluster, "one", state="running")
    logs_of(cluster, PortionedLog([DUMPED]))
    output = capsys.readouterr()
    assert (output.out, output.err) == ("backup/dump | 3 rows\n", "")


@pytest.mark.parametrize(
    ("state", "lines", "words", "want"),
    [
        pytest.param("running", [], [], "has written a line yet", id="so far"),
        pytest.param("complete", [], ["--follow"], "or none is kept any more", id="at the end"),
        pytest.param(
            "running",
            [DUMPED],
            ["--phase", "copy"],
            "No line of one is from phase copy; others are",
            id="of this phase",
        ),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_that_there_are_no_lines_is_said_beside_the_data(
    cluster: MemoryCluster,
    capsys: pytest.CaptureFixture[str],
    state: str,
    lines: list[PrintedLine],
    words: list[str],
    want: str,
    form: str,
) -> None:
    actionset(cluster, "one", state=state)
    logs_of(cluster, PortionedLog(lines), *words, "-o", form)
    output = capsys.readouterr()
    assert output.out == ""
    assert want in output.err


def test_who_follows_hears_nothing_of_lines_that_are_still_to_come(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    actionset(cluster, "one", state="running")

    class Ending(FakeClock):
        def sleep(self, seconds: float) -> None:
            ended = cluster.get(ACTION_SETS, "one", namespace="shop")
            cluster.replace_status({**ended, "status": {"state": "complete"}})

    logs_of(cluster, PortionedLog([], [DUMPED]), "--follow", clock=Ending())
    output = capsys.readouterr()
    assert (output.out, output.err) == ("backup/dump | 3 rows\n", "")


def test_following_ends_when_nobody_reads_the_lines_any_more(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    actionset(cluster, "one", state="running")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", patient(pipe))
        logs_of(cluster, PortionedLog([DUMPED]), "--follow")


def test_the_lines_of_one_that_is_not_there_are_an_error(cluster: MemoryCluster) -> None:
    with pytest.raises(NotFound):
        call(actionset_logs, cluster, "nobody")


# watch


@pytest.mark.parametrize(
    ("status", "code"),
    [
        pytest.param({"state": "complete", "actions": phases("complete")}, 0, id="complete"),
        pytest.param({"state": "failed", "error": {"message": "no luck"}}, 1, id="failed"),
        pytest.param(
            {
                "state": "failed",
                "error": {"message": "was cancelled", "reason": "Cancelled"},
                "conditions": [{"type": "CancelAsked", "status": "True", "reason": "Cancelled"}],
            },
            130,
            id="cancelled",
        ),
    ],
)
def test_the_code_of_the_watch_is_how_it_ended(
    cluster: MemoryCluster, status: dict[str, Any], code: int
) -> None:
    actionset(cluster, "one", **status)
    assert call(actionset_watch, cluster, "one") == code


def test_a_watch_sees_what_happens_after_it_began(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    actionset(cluster, "one", state="running", actions=phases("running", attempt=1))

    def end() -> None:
        found = cluster.get(ACTION_SETS, "one", namespace="shop")
        done = {"state": "complete", "actions": phases("complete", attempt=1)}
        cluster.replace_status({**found, "status": done})

    thread = Thread(target=end)
    thread.start()
    assert call(actionset_watch, cluster, "one", "-o", "json") == 0
    thread.join()
    captured = capsys.readouterr()
    assert json.loads(captured.out)["state"] == "complete"
    assert "✓ backup/dump" in captured.err


def test_an_actionset_that_is_deleted_ends_the_watch(cluster: MemoryCluster) -> None:
    actionset(cluster, "one", state="running")
    thread = Thread(target=lambda: cluster.delete(ACTION_SETS, "one", namespace="shop"))
    follower = actionset_watch._Follower(cluster, "shop", "one")
    with follower:
        thread.start()
        thread.join()
        news = [follower.next(5) for _ in range(2)]
        while not isinstance(news[-1], actionset_watch._Gone):
            news.append(follower.next(5))
        assert news[-1].error is None


def test_a_time_limit_ends_the_watch_and_not_the_actionset(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    actionset(cluster, "one", state="running")
    assert call(actionset_watch, cluster, "one", "--timeout", "1ms") == 1
    assert "one is running still" in capsys.readouterr().err


def test_each_thing_is_told_once() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
    looks = [
        Status(),
        parse_status({"state": "running", "actions": phases("running", attempt=1)}),
        parse_status(
            {
                "state": "running",
                "actions": phases(
                    "pending", attempt=1, retryTime=at, error={"message": "a\nb", "reason": "R"}
                ),
            }
        ),
        parse_status({"state": "running", "actions": phases("running", attempt=2)}),
        parse_status({"state": "complete", "actions": phases("complete", attempt=2)}),
    ]
    view = PlainView(pipe := io.StringIO())
    for look in (*looks, looks[-1]):
        view.on_status(look)
    assert pipe.getvalue().splitlines() == [
        "▶ backup/dump",
        "✗ backup/dump: a b; tried again at 00:00:00",
        "▶ backup/dump (attempt 2)",
        "✓ backup/dump",
    ]


# retry and cancel


def test_a_retry_makes_a_new_one_beside_the_old(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    actionset(cluster, "one", state="failed", actions=phases("failed"))
    assert call(actionset_retry, cluster, "one", "--name", "two") == 0
    assert capsys.readouterr().out == "actionset two created\n"
    made = cluster.get(ACTION_SETS, "two", namespace="shop")
    assert made["metadata"]["annotations"] == {"kanister-py.io/retry-of": "one"}


def test_what_is_not_over_or_went_well_is_not_done_again(cluster: MemoryCluster) -> None:
    actionset(cluster, "working", state="running", actions=phases("running"))
    actionset(cluster, "done", state="complete", actions=phases("complete"))
    for name in ("working", "done"):
        with pytest.raises(ActionSetState, match=name):
            call(actionset_retry, cluster, name)
    with refused_as("NothingToRetry"):
        call(actionset_retry, cluster, "done", "--from-phase", "nosuch")
    assert len(cluster.list(ACTION_SETS).items) == 2


def test_cancelling_says_so_in_the_spec(cluster: MemoryCluster) -> None:
    actionset(cluster, "one", state="running")
    assert call(actionset_cancel, cluster, "one") == 0
    assert created(cluster)["spec"]["cancel"] is True


def test_what_has_ended_cannot_be_cancelled(cluster: MemoryCluster) -> None:
    actionset(cluster, "one", state="complete")
    with pytest.raises(ActionSetState, match="nothing left to cancel"):
        call(actionset_cancel, cluster, "one")
    assert "cancel" not in created(cluster)["spec"]


def test_a_definition_that_drops_the_wish_is_told_of() -> None:
    cluster = MemoryCluster(clock=SystemClock(), default_namespace="shop")
    for each in read_definitions("blueprints"):
        schema = each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        schema.get("spec", {}).get("properties", {}).pop("cancel", None)
        cluster.create(each)
    actionset(cluster, "one", state="running")
    with pytest.raises(UsageError, match=r"knows no spec\.cancel") as refused:
        call(actionset_cancel, cluster, "one")
    assert refused.value.reason == "CancelNotKept"
