"""`kanister-py revisions`: listing, switching and deletion of revisions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli import revisions
from kanister_py.cli.parser import CommandLineError, Parser
from kanister_py.controller.compositions.revisions import reconcile_composition
from kanister_py.core.compositions.composite_crds import crd_of
from kanister_py.core.compositions.definitions import read_definition
from kanister_py.core.errors import UsageError
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, FUNCTION_REVISIONS
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.cli.revision_objects import CRDS, function_revision
from tests.conftest import CommandLine
from tests.controller.compositions.harness import bucket, composition, definition
from tests.raising import refused_as

Ask = Callable[..., Any]


def function(policy: str) -> dict[str, Any]:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "Function",
        "metadata": {"name": "templates"},
        "spec": {
            "package": "example.org/templates:v1.0.0",
            "revisionActivationPolicy": policy,
            "revisionHistoryLimit": 1,
        },
    }


@pytest.fixture
def cluster() -> MemoryCluster:
    memory_cluster = MemoryCluster(clock=SystemClock())
    for path in sorted(CRDS.glob("*.yaml")):
        memory_cluster.create(parse_documents(path.read_bytes(), path.name)[0].value)
    memory_cluster.load([definition()])
    defined = definition()
    defined["metadata"]["uid"] = "defined"
    model, _problems = read_definition(defined)
    memory_cluster.load([crd_of(model)])
    names = []
    for colour, channel in (("red", "stable"), ("green", "alpha"), ("blue", "alpha")):
        manifest = composition(colour, channel=channel)
        step = manifest["spec"]["pipeline"][0]
        step["functionRef"]["name"] = "templates"
        if colour == "red":
            step["functionRevisionRef"] = {"name": "templates-1"}
        memory_cluster.apply(manifest, field_manager="people", force=True)
        names.append(reconcile_composition(memory_cluster, "bucket", lambda *_event: None))
    stable = {"matchLabels": {"channel": "stable"}}
    memory_cluster.load(
        [
            bucket(
                "pinned",
                compositionRef={"name": "bucket"},
                compositionRevisionRef={"name": names[0]},
                compositionUpdatePolicy="Manual",
            ),
            bucket("choosy", compositionRevisionSelector=stable),
            function("Manual"),
            function_revision(1, "Inactive", channel="stable", serves=False),
            function_revision(2, "Inactive", channel="alpha", serves=False),
            function_revision(3, "Active", channel="alpha", serves=True),
            function_revision(4, "Active", channel="alpha", serves=False),
        ]
    )
    return memory_cluster


@pytest.fixture
def ask(cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(*words: str) -> str:
        parser = Parser(prog="kanister-py revisions", environment={})
        revisions.add_arguments(parser)
        assert revisions.act(parser.parse_args(list(words)), cluster) == 0
        out: str = capsys.readouterr().out
        return out

    return asked


def names_of(ask: Ask) -> list[str]:
    listed = json.loads(ask("list", "bucket", "-o", "json"))["revisions"]
    return [revision["name"] for revision in listed]


def test_list_shows_revisions_with_their_users(ask: Ask) -> None:
    listed = json.loads(ask("list", "-o", "json"))["revisions"]
    rows = [(revision["of"], revision["revision"], revision["state"]) for revision in listed]
    assert rows == [
        ("bucket", 3, "newest"),
        ("bucket", 2, "older"),
        ("bucket", 1, "older"),
        ("templates", 4, "active"),
        ("templates", 3, "routable"),
        ("templates", 2, "inactive"),
        ("templates", 1, "inactive"),
    ]
    assert listed[2]["usedBy"] == {
        "is held by": ["XBucket/default/pinned"],
        "is selected by": ["XBucket/default/choosy"],
    }
    assert list(listed[6]["usedBy"]) == ["is referenced by"]


def test_list_prints_a_table_and_filters(ask: Ask) -> None:
    lines = ask("list", "--kind", "function").splitlines()
    head = ["KIND", "OF", "REVISION", "NAME", "STATE", "RUNS", "FROM", "USED", "BY"]
    assert lines[0].split() == head
    assert len(lines) == 5
    assert "templates-3" in lines[2]
    assert yaml.safe_load(ask("list", "nobody", "-o", "yaml")) == {"revisions": []}
    assert ask("list", "nobody") == "There are no revisions.\n"


def test_list_shows_version_origin_and_status(cluster: MemoryCluster, ask: Ask) -> None:
    def installed(number: int, image: str, **annotations: str) -> dict[str, Any]:
        revision = function_revision(number, "Active", channel="alpha", serves=True)
        revision["metadata"]["name"] = f"painter-{number}"
        revision["metadata"]["labels"]["pkg.crossplane.io/package"] = "painter"
        revision["metadata"]["annotations"] = {
            f"kanister-py.io/{k}": v for k, v in annotations.items()
        }
        revision["spec"]["image"] = image
        return revision

    record = {
        "releases": [{"version": f"1.{minor}.0"} for minor in range(3)],
        "versions": {
            "v1.0.0": {
                "since": "1.0.0",
                "deprecatedIn": "1.0.0",
                "removedIn": "1.2.0",
                "replacement": "v1.1.0",
            },
            "v1.1.0": {"since": "1.1.0"},
        },
    }
    here = "example.org/function-jinja-templating@sha256:0"
    by_default = installed(2, "example.org/crossplane-contrib/function-auto-ready:v0.7.1")
    # The controller runs packages without a runtime annotation in process.
    by_default["status"]["endpoint"] = "builtin:function-auto-ready@v0.1.0"
    newest = {"package-tag": "v1.1.0", "lifecycle": json.dumps(record)}
    cluster.load(
        [
            installed(1, here, **{"package-tag": "v0.1.0", "runtime": "InProcess"}),
            by_default,
            installed(3, "example.org/painter@sha256:1", **{"package-tag": "v1.0.0"}),
            installed(4, "example.org/painter@sha256:2", **newest),
            installed(5, here, **{"package-tag": "v9.9.9", "runtime": "InProcess"}),
        ]
    )
    shown = {
        revision["name"]: (
            revision["origin"],
            revision["runs"],
            revision["status"],
            revision.get("replacement"),
        )
        for revision in json.loads(ask("list", "painter", "-o", "json"))["revisions"]
    }
    assert shown == {
        "painter-1": ("built in", "function-jinja-templating v0.1.0", "deprecated", "v0.2.0"),
        "painter-2": ("built in", "function-auto-ready v0.1.0", "served", None),
        "painter-3": ("package", "v1.0.0", "deprecated", "v1.1.0"),
        "painter-4": ("package", "v1.1.0", "served", None),
        "painter-5": ("built in", "", None, None),
    }
    lines = ask("list", "painter")
    assert "function-jinja-templating v0.1.0, deprecated until 0.4.0" in lines
    assert "v1.0.0, deprecated until 1.2.0" in lines


def test_active_revision_that_is_not_routable_shows_the_reason(
    cluster: MemoryCluster, ask: Ask
) -> None:
    silent = function_revision(5, "Active", channel="alpha", serves=True)
    silent["status"]["endpoint"] = ""
    unseen = function_revision(6, "Active", channel="alpha", serves=False)
    del unseen["status"]
    cluster.load([silent, unseen])
    lines = {line.split()[3]: line for line in ask("list", "templates").splitlines()[1:]}
    assert "active, has no endpoint yet" in lines["templates-5"]
    assert "active, is not healthy" in lines["templates-4"]
    assert "active, is not healthy" in lines["templates-6"], "nobody has looked at it so far"
    assert lines["templates-3"].split()[4] == "routable"
    assert lines["templates-1"].split()[4] == "inactive"
    listed = json.loads(ask("list", "templates", "-o", "json"))["revisions"]
    assert [revision["state"] for revision in listed[:3]] == ["active", "active", "active"]


def test_a_difference_is_shown_on_a_terminal_with_the_lines_around_it(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    lines = ask("diff", "templates-1", "templates-2").splitlines()
    assert "labels:" in [line.strip() for line in lines], "what did not change has no colour"
    assert "\x1b[31m-  channel: stable\x1b[0m" in lines


def test_the_users_of_a_revision_are_named(ask: Ask) -> None:
    *_newer, oldest = names_of(ask)
    output = ask("users", oldest)
    assert "XBucket/default/pinned" in output
    assert "XBucket/default/choosy" in output
    assert "No object pins" in ask("users", "templates-2")


def test_diff_ignores_the_numbers_of_revisions(ask: Ask) -> None:
    newest, middle, oldest = names_of(ask)
    lines = ask("diff", middle, newest).splitlines()
    changed = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert {line.partition(":")[2].strip() for line in changed} == {"green", "blue"}
    text = ask("diff", oldest, newest)
    assert "-  channel: stable" in text
    assert "+  channel: alpha" in text
    assert ask("diff", newest, newest) == ""


def test_unknown_revision_lists_the_existing_ones(ask: Ask) -> None:
    with pytest.raises(UsageError, match="templates-1") as refused:
        ask("users", "none")
    assert refused.value.reason == "RevisionNotFound"


def state_of(cluster: MemoryCluster, name: str) -> str:
    return str(cluster.get(FUNCTION_REVISIONS, name)["spec"]["desiredState"])


def test_revisions_of_a_function_are_switched(cluster: MemoryCluster, ask: Ask) -> None:
    ask("activate", "templates-2")
    assert state_of(cluster, "templates-2") == "Active"
    ask("deactivate", "templates-2")
    assert state_of(cluster, "templates-2") == "Inactive"
    assert "already" in ask("deactivate", "templates-2")


def test_last_routable_revision_is_deactivated_only_with_force(
    cluster: MemoryCluster, ask: Ask
) -> None:
    with refused_as("RevisionNotSwitched"):
        ask("deactivate", "templates-3")
    assert state_of(cluster, "templates-3") == "Active"
    ask("deactivate", "templates-3", "--force")
    assert state_of(cluster, "templates-3") == "Inactive"


def test_used_revision_is_deactivated_only_with_force(cluster: MemoryCluster, ask: Ask) -> None:
    ask("activate", "templates-1")
    with refused_as("RevisionNotSwitched") as refused:
        ask("deactivate", "templates-1")
    assert "is referenced by" in refused.value.message


def test_functions_with_automatic_activation_are_not_switched(
    cluster: MemoryCluster, ask: Ask
) -> None:
    cluster.apply(function("Automatic"), field_manager="people", force=True)
    with refused_as("RevisionNotSwitched") as refused:
        ask("activate", "templates-2")
    assert "Manual" in refused.value.message
    assert state_of(cluster, "templates-2") == "Inactive"
    with refused_as("RevisionNotSwitched"):
        ask("activate", names_of(ask)[0])


def left(cluster: MemoryCluster) -> tuple[list[int], list[int]]:
    numbers = [
        sorted(obj["spec"]["revision"] for obj in cluster.list(resource).items)
        for resource in (COMPOSITION_REVISIONS, FUNCTION_REVISIONS)
    ]
    return numbers[0], numbers[1]


def test_gc_with_dry_run_deletes_nothing(cluster: MemoryCluster, ask: Ask) -> None:
    report = json.loads(ask("gc", "--dry-run", "--keep", "1", "-o", "json"))
    assert report["dryRun"] is True
    assert [entry["of"] for entry in report["removed"]] == ["bucket", "templates"]
    why = {entry["name"]: entry["why"] for entry in report["kept"]}
    assert why["templates-3"] == ["is active"]
    assert any("is referenced by" in reason for reason in why["templates-1"])
    assert left(cluster) == ([1, 2, 3], [1, 2, 3, 4])


def test_gc_deletes_unused_revisions_only(cluster: MemoryCluster, ask: Ask) -> None:
    # Defaults: ten of a composition, revisionHistoryLimit of a function.
    ask("gc")
    assert left(cluster) == ([1, 2, 3], [1, 3, 4])
    text = ask("gc", "--keep", "1", "--kind", "composition")
    assert left(cluster) == ([1, 3], [1, 3, 4])
    assert "XBucket/default/pinned" in text
    assert "is the newest" in text


@pytest.mark.parametrize("words", [["gc", "--keep", "0"], ["diff", "one"], []])
def test_missing_verb_is_refused(ask: Ask, words: list[str]) -> None:
    with pytest.raises(CommandLineError):
        ask(*words)


def test_list_needs_a_cluster(kanister: CommandLine) -> None:
    assert "revisions" in kanister("completion", "words", "--", "").out.split()
    assert "gc" in kanister("completion", "words", "--", "revisions", "").out.split()
    done = kanister("revisions", "list", "--kubeconfig", "/nowhere")
    assert done.code == 1
    assert "/nowhere" in done.err
