"""`kanister-py crds`: definitions that clusters accept."""

from __future__ import annotations

import json

import yaml

from tests.conftest import CommandLine


def test_print_writes_one_file_for_kubectl(
    kanister: CommandLine,
) -> None:
    done = kanister("crds", "print")
    assert (done.code, done.err) == (0, "")
    kinds = [definition["kind"] for definition in yaml.safe_load_all(done.out)]
    assert kinds
    assert set(kinds) == {"CustomResourceDefinition"}


def test_print_only_blueprints(kanister: CommandLine) -> None:
    done = kanister("crds", "print", "--only", "blueprints", "-o", "json")
    names = [item["metadata"]["name"] for item in json.loads(done.out)["items"]]
    assert names == [
        "actionsets.cr.kanister.io",
        "blueprints.cr.kanister.io",
        "profiles.cr.kanister.io",
        "referencegrants.kanister-py.io",
        "schedules.kanister-py.io",
    ]


def test_blueprints_and_compositions_are_all_definitions(kanister: CommandLine) -> None:
    def names(*words: str) -> list[str]:
        done = kanister("crds", "print", "-o", "json", *words)
        return [item["metadata"]["name"] for item in json.loads(done.out)["items"]]

    halves = names("--only", "blueprints") + names("--only", "compositions")
    assert sorted(halves) == sorted(names())


def test_unreachable_cluster_is_reported_in_one_line(kanister: CommandLine) -> None:
    done = kanister("crds", "install", "--kubeconfig", "/nowhere")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "/nowhere" in done.err
