"""Verbs of `kanister-py actionset`, on a cluster in memory."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from threading import Thread
from typing import Any

import pytest
import yaml

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli.actionset_output import print_lines
from kanister_py.cli.follow_actionset import _Follower, _Gone
from kanister_py.cli.parser import CommandLineError
from kanister_py.cli.streams import discard_after_reader
from kanister_py.cli.view import PlainView
from kanister_py.core.actionsets.status import Status, parse_status
from kanister_py.core.blueprints.options import OptionsInvalid
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.actionset_requests import ActionSetState
from kanister_py.executor.install_definitions import read_definitions
from kanister_py.ports.clock import Clock
from kanister_py.ports.phase_lines import PrintedLine
from tests.fake_clock import FakeClock
from tests.raising import refused_as
from tests.verbs_on_cluster import call_verb, parse_verb


def add_actionset(cluster: MemoryCluster, name: str, **status: Any) -> None:
    reference = {"kind": "StatefulSet", "name": "db", "namespace": "shop"}
    actionset = cluster.create(
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "ActionSet",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"actions": [{"name": "backup", "blueprint": "mysql", "object": reference}]},
        }
    )
    if status:
        cluster.replace_status({**actionset, "status": status})


def phases(state: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": "backup", "phases": [{"name": "dump", "state": state, **more}]}]


def the_actionset(cluster: MemoryCluster) -> dict[str, Any]:
    (actionset,) = cluster.list(ACTION_SETS).items
    return actionset


# create


def test_create_prints_the_object_without_managed_fields(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("-a", "backup", "-b", "mysql", "-t", "shop/db", "--output", "json")
    assert call_verb(shop_cluster, "actionset", "create", *words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["metadata"]["uid"] == the_actionset(shop_cluster)["metadata"]["uid"]
    assert "managedFields" in the_actionset(shop_cluster)["metadata"]
    assert "managedFields" not in printed["metadata"]


def test_create_makes_an_action_for_a_named_workload(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("-a", "backup", "-b", "mysql", "--statefulset", "shop/db", "--name", "one")
    assert call_verb(shop_cluster, "actionset", "create", *words, "-o", "a=1,2,b=x=y") == 0
    assert capsys.readouterr().out == "actionset one created\n"
    (action,) = the_actionset(shop_cluster)["spec"]["actions"]
    assert action["object"]["kind"] == "StatefulSet"
    assert action["options"] == {"a": "1,2", "b": "x=y"}


def test_create_checks_options_against_declarations(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    actions = {"backup": {"options": {"level": {"type": "integer"}}}}
    shop_cluster.patch(BLUEPRINTS, "mysql", {"actions": actions}, namespace="shop")
    words = ("actionset", "create", "-a", "backup", "-b", "mysql", "--statefulset", "shop/db")
    with pytest.raises(OptionsInvalid) as refused:
        call_verb(shop_cluster, *words, "--options", "levle=3")
    assert refused.value.message == "Action backup has no option levle; did you mean level?"
    assert call_verb(shop_cluster, *words, "--options", "levle=3", "--skip-validation") == 0
    assert call_verb(shop_cluster, *words, "--options", "level=3") == 0
    # The action of the Blueprint has no templates.
    assert "Option level is set, but action backup does not use it" in capsys.readouterr().err


def test_create_selects_objects_by_label_and_kind(shop_cluster: MemoryCluster) -> None:
    words = ("-a", "backup", "-b", "mysql", "-l", "app=db")
    assert call_verb(shop_cluster, "actionset", "create", *words) == 0
    actions = the_actionset(shop_cluster)["spec"]["actions"]
    assert [action["object"]["name"] for action in actions] == ["web", "db"]


def test_create_accepts_a_resource_with_its_group(shop_cluster: MemoryCluster) -> None:
    words = ("-a", "backup", "-b", "mysql", "-O", "apps/v1/deployments/shop/web")
    assert call_verb(shop_cluster, "actionset", "create", *words) == 0
    (action,) = the_actionset(shop_cluster)["spec"]["actions"]
    assert action["object"]["group"] == "apps"


def test_create_selects_namespaces_by_label(shop_cluster: MemoryCluster) -> None:
    shop_cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "billing", "labels": {"app": "db"}},
        }
    )
    words = ("-a", "backup", "-b", "mysql", "-l", "app=db", "-k", "namespace")
    assert call_verb(shop_cluster, "actionset", "create", *words) == 0
    (action,) = the_actionset(shop_cluster)["spec"]["actions"]
    assert (action["object"]["name"], action["object"]["namespace"]) == ("billing", "billing")


def test_create_reports_all_missing_objects_at_once(
    shop_cluster: MemoryCluster,
) -> None:
    words = ("-a", "restore", "-b", "mysql", "-t", "shop/gone", "-p", "s3", "-s", "x=shop/key")
    with refused_as("ActionSetNotFit") as caught:
        call_verb(shop_cluster, "actionset", "create", *words)
    assert caught.value.message.split("; ")[:-1] == [
        "Blueprint shop/mysql has no action restore, only backup",
        "There is no StatefulSet shop/gone",
        "There is no profile shop/s3",
        "There is no secret shop/key",
    ]
    assert shop_cluster.list(ACTION_SETS).items == []


def test_create_skips_validation_on_request(shop_cluster: MemoryCluster) -> None:
    words = ("-a", "backup", "-b", "none", "-t", "shop/gone", "--skip-validation")
    assert call_verb(shop_cluster, "actionset", "create", *words) == 0
    assert the_actionset(shop_cluster)["spec"]["actions"][0]["blueprint"] == "none"


def test_create_with_dry_run_only_prints(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("-a", "backup", "-b", "mysql", "-t", "shop/db", "--dry-run")
    assert call_verb(shop_cluster, "actionset", "create", *words) == 0
    assert yaml.safe_load(capsys.readouterr().out)["kind"] == "ActionSet"
    assert shop_cluster.list(ACTION_SETS).items == []


def test_create_accepts_the_short_flags_of_kanctl(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("-a", "backup", "-b", "mysql", "-t", "shop/db", "-A", "one", "-o", "a=1", "-o", "yaml")
    assert call_verb(shop_cluster, "actionset", "create", *words) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["metadata"]["name"] == "one"
    assert printed["spec"]["actions"][0]["options"] == {"a": "1"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--options", "x"], "--options: must be KEY=VALUE", id="no value"),
        pytest.param(["-o", "xml"], "must be one of yaml, json, name, found 'xml'", id="no format"),
    ],
)
def test_create_refuses_a_malformed_flag(words: list[str], message: str) -> None:
    with pytest.raises(CommandLineError, match=message):
        parse_verb("actionset", "create", "-a", "backup", "-b", "mysql", *words)


# list and get


def test_list_shows_state_progress_and_error(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_actionset(shop_cluster, "fresh")
    progress = {"percentCompleted": "50", "runningPhase": "dump"}
    add_actionset(shop_cluster, "working", state="running", progress=progress)
    add_actionset(shop_cluster, "broken", state="failed", error={"message": "no\nluck"})
    assert call_verb(shop_cluster, "actionset", "list") == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert rows["fresh"].split()[1:5] == ["pending", "-", "-", "-"]
    assert rows["working"].split()[1:4] == ["running", "50%", "dump"]
    assert rows["broken"].endswith("no luck")


def test_get_prints_one_object_or_a_list(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_actionset(shop_cluster, "one", state="complete")
    assert call_verb(shop_cluster, "actionset", "get", "one", "-o", "json") == 0
    read = json.loads(capsys.readouterr().out)
    assert (read["kind"], read["status"]["state"]) == ("ActionSet", "complete")
    assert call_verb(shop_cluster, "actionset", "get", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "List"
    assert call_verb(shop_cluster, "actionset", "get", "-o", "name") == 0
    assert capsys.readouterr().out == "one\n"


def test_get_fails_for_an_unknown_name(shop_cluster: MemoryCluster) -> None:
    with pytest.raises(NotFound):
        call_verb(shop_cluster, "actionset", "get", "nobody")


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
def test_an_empty_list_is_reported_on_stderr(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str], words: list[str], want: str
) -> None:
    assert call_verb(shop_cluster, "actionset", "list", *words) == 0
    output = capsys.readouterr()
    assert output.err == want
    assert output.out == "" or json.loads(output.out)["items"] == []


def test_list_in_an_unknown_namespace_suggests_another_one(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_verb(shop_cluster, "actionset", "list", namespace="shopp") == 0
    assert "Namespace shopp does not exist; did you mean shop?" in capsys.readouterr().err


def test_a_wide_list_names_blueprints_and_objects(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "x" * 200
    add_actionset(shop_cluster, "one", state="failed", error={"message": message})
    assert call_verb(shop_cluster, "actionset", "list", "-o", "wide") == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[-4:] == ["ACTION", "BLUEPRINT", "OBJECT", "ERROR"]
    assert row.split()[-5:] == ["backup", "mysql", "StatefulSet", "shop/db", message]


# describe and delete


def test_describe_shows_phases_artifacts_and_the_error(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    dumped = phases("complete", attempt=2, funcVersion="v0.1.0", output={"path": "a/b"})
    dumped[0]["artifacts"] = {"dump": {"keyValue": {"path": "a/b"}}}
    error = {"message": "no\nluck", "reason": "Broken", "action": "backup", "phase": "upload"}
    add_actionset(shop_cluster, "one", state="failed", actions=dumped, error=error)
    assert call_verb(shop_cluster, "actionset", "describe", "one") == 0
    out = capsys.readouterr().out
    lines = {line.partition(":")[0]: line.partition(":")[2].strip() for line in out.splitlines()}
    assert lines["Name"] == "shop/one"
    assert lines["Action"] == "backup of mysql on StatefulSet shop/db"
    assert lines["Artifact"] == 'dump: {"keyValue": {"path": "a/b"}}'
    assert lines["Error"] == "backup/upload: no luck"
    assert lines["Reason"] == "Broken"
    (row,) = [line for line in out.splitlines() if line.startswith("  dump")]
    assert row.split() == ["dump", "complete", "v0.1.0", "2", "-", "path"]


def test_describe_shows_the_options_that_the_action_declares(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    level = {"type": "integer", "default": "3", "description": "Compression"}
    actions = {"backup": {"options": {"level": level}}}
    shop_cluster.patch(BLUEPRINTS, "mysql", {"actions": actions}, namespace="shop")
    add_actionset(shop_cluster, "one")
    assert call_verb(shop_cluster, "actionset", "describe", "one") == 0
    (line,) = [text for text in capsys.readouterr().out.splitlines() if "Option" in text]
    assert line.split(maxsplit=1)[1] == "level: integer; default: '3': Compression"


def test_describe_shows_an_actionset_without_a_status(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_actionset(shop_cluster, "one")
    assert call_verb(shop_cluster, "actionset", "describe", "one") == 0
    assert "pending" in capsys.readouterr().out


def test_delete_reports_objects_that_wait_for_a_finalizer(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_actionset(shop_cluster, "one")
    add_actionset(shop_cluster, "two")
    finalizers = {"metadata": {"finalizers": ["example.org/wait"]}}
    shop_cluster.patch(ACTION_SETS, "two", finalizers, namespace="shop")
    assert call_verb(shop_cluster, "actionset", "delete", "one", "two") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "actionset one deleted"
    assert "two is being deleted" in second


def test_delete_fails_for_an_unknown_name(shop_cluster: MemoryCluster) -> None:
    with pytest.raises(NotFound):
        call_verb(shop_cluster, "actionset", "delete", "nobody")
    assert call_verb(shop_cluster, "actionset", "delete", "nobody", "--ignore-not-found") == 0


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
    args = parse_verb("actionset", "logs", "one", *words)
    assert print_lines(args, cluster, source, clock or FakeClock()) == 0


DUMPED = PrintedLine("2026-01-01T00:00:00Z", "backup", "dump", "3 rows")


def test_logs_name_the_phase_of_each_line(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_actionset(shop_cluster, "one", state="running")
    logs_of(shop_cluster, PortionedLog([DUMPED]))
    output = capsys.readouterr()
    assert (output.out, output.err) == ("backup/dump | 3 rows\n", "")


@pytest.mark.parametrize(
    ("state", "lines", "words", "want"),
    [
        pytest.param("running", [], [], "has written a line yet", id="so far"),
        pytest.param("complete", [], ["--follow"], "or the lines were not kept", id="at the end"),
        pytest.param(
            "running",
            [DUMPED],
            ["--phase", "copy"],
            "one has log lines, but none of phase copy",
            id="of this phase",
        ),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_logs_without_lines_explain_why_on_stderr(
    shop_cluster: MemoryCluster,
    capsys: pytest.CaptureFixture[str],
    state: str,
    lines: list[PrintedLine],
    words: list[str],
    want: str,
    form: str,
) -> None:
    add_actionset(shop_cluster, "one", state=state)
    logs_of(shop_cluster, PortionedLog(lines), *words, "-o", form)
    output = capsys.readouterr()
    assert output.out == ""
    assert want in output.err


def test_following_logs_waits_silently_for_the_first_line(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_actionset(shop_cluster, "one", state="running")

    class Ending(FakeClock):
        def sleep(self, seconds: float) -> None:
            ended = shop_cluster.get(ACTION_SETS, "one", namespace="shop")
            shop_cluster.replace_status({**ended, "status": {"state": "complete"}})

    logs_of(shop_cluster, PortionedLog([], [DUMPED]), "--follow", clock=Ending())
    output = capsys.readouterr()
    assert (output.out, output.err) == ("backup/dump | 3 rows\n", "")


def test_following_logs_ends_when_the_reader_goes_away(
    shop_cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_actionset(shop_cluster, "one", state="running")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", discard_after_reader(pipe))
        logs_of(shop_cluster, PortionedLog([DUMPED]), "--follow")


def test_logs_fail_for_an_unknown_name(shop_cluster: MemoryCluster) -> None:
    with pytest.raises(NotFound):
        call_verb(shop_cluster, "actionset", "logs", "nobody")


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
def test_watch_exits_with_the_outcome(
    shop_cluster: MemoryCluster, status: dict[str, Any], code: int
) -> None:
    add_actionset(shop_cluster, "one", **status)
    assert call_verb(shop_cluster, "actionset", "watch", "one") == code


def test_watch_shows_later_changes(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_actionset(shop_cluster, "one", state="running", actions=phases("running", attempt=1))

    def end() -> None:
        running = shop_cluster.get(ACTION_SETS, "one", namespace="shop")
        done = {"state": "complete", "actions": phases("complete", attempt=1)}
        shop_cluster.replace_status({**running, "status": done})

    thread = Thread(target=end)
    thread.start()
    assert call_verb(shop_cluster, "actionset", "watch", "one", "-o", "json") == 0
    thread.join()
    captured = capsys.readouterr()
    assert json.loads(captured.out)["state"] == "complete"
    assert "✓ backup/dump" in captured.err


def test_watch_ends_when_the_actionset_is_deleted(shop_cluster: MemoryCluster) -> None:
    add_actionset(shop_cluster, "one", state="running")
    thread = Thread(target=lambda: shop_cluster.delete(ACTION_SETS, "one", namespace="shop"))
    follower = _Follower(shop_cluster, "shop", "one")
    with follower:
        thread.start()
        thread.join()
        news = [follower.next(5) for _ in range(2)]
        while not isinstance(news[-1], _Gone):
            news.append(follower.next(5))
        assert news[-1].error is None


def test_watch_fails_after_its_timeout(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_actionset(shop_cluster, "one", state="running")
    assert call_verb(shop_cluster, "actionset", "watch", "one", "--timeout", "1ms") == 1
    assert "one is still running" in capsys.readouterr().err


def test_plain_view_prints_each_change_once() -> None:
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
        "✗ backup/dump: a b; retry at 00:00:00",
        "▶ backup/dump (attempt 2)",
        "✓ backup/dump",
    ]


# retry and cancel


def test_retry_creates_a_new_actionset(
    shop_cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_actionset(shop_cluster, "one", state="failed", actions=phases("failed"))
    assert call_verb(shop_cluster, "actionset", "retry", "one", "--name", "two") == 0
    assert capsys.readouterr().out == "actionset two created\n"
    retry = shop_cluster.get(ACTION_SETS, "two", namespace="shop")
    assert retry["metadata"]["annotations"] == {"kanister-py.io/retry-of": "one"}


def test_retry_refuses_running_and_complete_actionsets(shop_cluster: MemoryCluster) -> None:
    add_actionset(shop_cluster, "working", state="running", actions=phases("running"))
    add_actionset(shop_cluster, "done", state="complete", actions=phases("complete"))
    for name in ("working", "done"):
        with pytest.raises(ActionSetState, match=name):
            call_verb(shop_cluster, "actionset", "retry", name)
    with refused_as("NothingToRetry"):
        call_verb(shop_cluster, "actionset", "retry", "done", "--from-phase", "nosuch")
    assert len(shop_cluster.list(ACTION_SETS).items) == 2


def test_cancel_sets_the_field_in_the_spec(shop_cluster: MemoryCluster) -> None:
    add_actionset(shop_cluster, "one", state="running")
    assert call_verb(shop_cluster, "actionset", "cancel", "one") == 0
    assert the_actionset(shop_cluster)["spec"]["cancel"] is True


def test_cancel_refuses_an_ended_actionset(shop_cluster: MemoryCluster) -> None:
    add_actionset(shop_cluster, "one", state="complete")
    with pytest.raises(ActionSetState, match="nothing left to cancel"):
        call_verb(shop_cluster, "actionset", "cancel", "one")
    assert "cancel" not in the_actionset(shop_cluster)["spec"]


def test_cancel_fails_if_the_definition_drops_the_field() -> None:
    cluster = MemoryCluster(clock=SystemClock(), default_namespace="shop")
    for definition in read_definitions("blueprints"):
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        schema.get("spec", {}).get("properties", {}).pop("cancel", None)
        cluster.create(definition)
    add_actionset(cluster, "one", state="running")
    with refused_as("CancelNotKept"):
        call_verb(cluster, "actionset", "cancel", "one")
