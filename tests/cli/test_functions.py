from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.conftest import CommandLine


def listed(kanister: CommandLine, *words: str) -> list[list[str]]:
    done = kanister("functions", "list", *words)
    assert done.code == 0, done.err
    return [line.split() for line in done.out.splitlines()[1:]]


def test_list_shows_versions_with_their_status(kanister: CommandLine) -> None:
    ours = [row for row in listed(kanister) if row[-2] == "acme-functions"]
    assert ours == [
        ["Greet", "v0.0.0", "stable", "acme-functions", "1.2.0"],
        ["Notify", "v0.3.0-rc.1", "supported", "acme-functions", "1.2.0"],
        ["Notify", "v0.2.0", "stable", "acme-functions", "1.2.0"],
        ["Notify", "v0.1.0", "deprecated", "until", "1.3.0", "v0.2.0", "acme-functions", "1.2.0"],
    ]


def test_all_also_lists_removed_versions(kanister: CommandLine) -> None:
    rows = listed(kanister, "--all")
    want = ["Notify", "v0.0.1", "removed", "in", "1.2.0", "v0.2.0", "acme-functions", "1.2.0"]
    assert want in rows


def test_json_and_yaml_contain_the_same_data(kanister: CommandLine) -> None:
    as_json = json.loads(kanister("functions", "list", "-o", "json").out)
    as_yaml = yaml.safe_load(kanister("functions", "list", "-o", "yaml").out)
    assert as_json == as_yaml
    notify = next(function for function in as_json["functions"] if function["name"] == "Notify")
    assert notify["stableVersion"] == "v0.2.0"
    assert [version["status"] for version in notify["versions"]] == [
        "served",
        "stable",
        "deprecated",
        "removed",
    ]
    assert notify["versions"][2]["removedInDate"] == "2027-01-15"


def test_markdown_is_a_table(kanister: CommandLine) -> None:
    head, rule, *rows = kanister("functions", "list", "-o", "markdown").out.splitlines()
    assert head.startswith("| FUNCTION | VERSION |")
    assert set(rule) <= set("|- ")
    assert all(row.count(" | ") == head.count(" | ") for row in rows)


def test_list_filters_by_kind(kanister: CommandLine) -> None:
    assert not [row for row in listed(kanister, "--kind", "Composition") if row[0] == "Greet"]


def test_describe_shows_the_stable_version_unless_one_is_named(kanister: CommandLine) -> None:
    assert kanister("functions", "describe", "Notify").out.startswith("Notify v0.2.0\n")
    assert kanister("function", "describe", "Notify@0.1.0").out.startswith("Notify v0.1.0\n")


def test_describe_shows_arguments_with_defaults_and_docs(kanister: CommandLine) -> None:
    out = kanister("functions", "describe", "Notify@v0.2.0").out
    rows = [line.split(maxsplit=1) for line in out.splitlines()]
    assert ["recipient", "text          required  Who is told"] in rows
    assert ["retries", "whole number  3         How often a failed try is repeated"] in rows


def test_describe_shows_end_and_replacement_of_a_deprecated_version(kanister: CommandLine) -> None:
    out = kanister("functions", "describe", "Notify@v0.1.0").out
    assert "Deprecated since release 1.1.0, refused from release 1.3.0 on; use v0.2.0." in out
    assert "it tries only once" in out


def test_describe_shows_the_record_of_a_removed_version(kanister: CommandLine) -> None:
    done = kanister("functions", "describe", "Notify@v0.0.1")
    assert done.code == 0
    assert "Removed in release 1.2.0; use v0.2.0." in done.out


def described(kanister: CommandLine, name: str) -> Any:
    return json.loads(kanister("functions", "describe", name, "-o", "json").out)


def test_describe_as_data_has_outputs_and_restart(kanister: CommandLine) -> None:
    greet = described(kanister, "Greet")
    assert greet["outputs"] == [
        {"name": "text", "type": "text", "required": True, "description": "The whole greeting"}
    ]
    assert greet["freeOutputs"] is False
    assert greet["onRestart"] == "repeat"


def test_diff_lists_breaking_changes_first(kanister: CommandLine) -> None:
    done = kanister("functions", "diff", "Notify", "v0.1.0", "v0.2.0", "-o", "json")
    data = json.loads(done.out)
    assert done.code == 0
    assert data["breaking"] is True
    assert [(change["what"], change["name"], change["breaking"]) for change in data["changes"]] == [
        ("argument-renamed", "to", True),
        ("default-changed", "retries", True),
    ]


def test_diff_reports_equal_versions(kanister: CommandLine) -> None:
    done = kanister("functions", "diff", "Notify", "v0.2.0", "0.3.0-rc.1")
    assert "No argument and no output differs." in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["describe", "Gret"],
            "{Gret} has not been registered; did you mean Greet?",
            id="a near name",
        ),
        pytest.param(
            ["describe", "CreateVolumeSnapshot"],
            "Kanister has removed it as well, use CreateCSISnapshot instead",
            id="a function that went from Kanister",
        ),
        pytest.param(
            ["describe", "Notify@v9.9.9"],
            "Notify has no version that matches v9.9.9",
            id="an unknown version",
        ),
        pytest.param(["describe", "Notify@1"], "write v1.0.0 or the range ~1", id="half a version"),
        pytest.param(
            ["diff", "Notify", "v0.0.1", "v0.2.0"],
            "Notify v0.0.1 was removed in release 1.2.0",
            id="a removed version",
        ),
        pytest.param(
            ["diff", "Notify", "v0.1.0", "v7.0.0"],
            "Notify has no version that matches v7.0.0",
            id="no version to compare with",
        ),
    ],
)
def test_unknown_names_are_reported_in_one_line(
    kanister: CommandLine, words: list[str], message: str
) -> None:
    done = kanister("functions", *words)
    assert done.code == 1
    assert done.out == ""
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_diff_includes_fixes_without_changed_arguments(
    kanister: CommandLine,
) -> None:
    done = kanister("functions", "diff", "WaitV2", "v0.0.0", "v0.1.0", "-o", "json")
    (change,) = json.loads(done.out)["changes"]
    assert (change["what"], change["breaking"]) == ("behaviour", False)
    assert "fails at once" in change["message"]


@pytest.mark.parametrize("name", ["@v0.1.0", "", "Greet@"])
def test_describe_refuses_incomplete_names(kanister: CommandLine, name: str) -> None:
    done = kanister("functions", "describe", name)
    assert (done.code, done.out) == (64, "")
    assert "such as KubeTask@v0.1.0" in done.err


def test_describe_takes_a_range_as_a_phase_would(kanister: CommandLine) -> None:
    assert kanister("functions", "describe", "Notify@~0.2").out.startswith("Notify v0.2.0\n")


def test_list_counts_hidden_versions(kanister: CommandLine) -> None:
    hidden = "1 removed or planned versions are not shown; --all shows them\n"
    assert kanister("functions", "list").err.startswith(hidden)
    assert hidden not in kanister("functions", "list", "--all").err
