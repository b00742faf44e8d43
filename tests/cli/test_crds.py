"""`kanister-py crds`: definitions that clusters take."""

from __future__ import annotations

import json

import yaml

from tests.conftest import CommandLine


def test_every_definition_is_printed_as_one_file_that_kubectl_applies(
    kanister: CommandLine,
) -> None:
    done = kanister("crds", "print")
    assert (done.code, done.err) == (0, "")
    kinds = [definition["kind"] for definition in yaml.safe_load_all(done.out)]
    assert kinds
    assert set(kinds) == {"CustomResourceDefinition"}


def test_only_the_blueprints_are_printed_when_asked_for(kanister: CommandLine) -> None:
    done = kanister("crds", "print", "--only", "blueprints", "-o", "json")
    names = [item["metadata"]["name"] for item in json.loads(done.out)["items"]]
    assert names == [
        "actionsets.cr.kanister.io",
        "blueprints.cr.kanister.io",
        "profiles.cr.kanister.io",
        "referencegrants.kanister-py.io",
        "schedules.kanister-py.io",
    ]


def test_the_two_halves_are_the_whole(kanister: CommandLine) -> None:
    def names(*words: str) -> list[str]:
        done = kanister("crds", "print", "-o", "json", *words)
        return [item["metadata"]["name"] for item in json.loads(done.out)["items"]]

    halves = names("--only", "blueprints") + names("--only", "compositions")
    assert sorted(halves) == sorted(names())


def test_a_cluster_that_is_nowhere_is_one_line(kanister: CommandLine) -> None:
    done = kanister("crds", "install", "--kubeconfig", "/nowhere")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "/nowhere" in done.err
