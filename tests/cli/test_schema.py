"""`kanister-py schema`: JSON Schemas for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from kanister_py.core.editor_schemas import KINDS
from kanister_py.core.yaml.documents import parse_documents
from tests.conftest import CommandLine


@pytest.fixture(scope="module")
def blueprint_schema(kanister: CommandLine) -> dict[str, Any]:
    return shown(kanister, "Blueprint")


def shown(kanister: CommandLine, *words: str) -> dict[str, Any]:
    done = kanister("schema", "show", *words)
    assert (done.code, done.err) == (0, "")
    schema: dict[str, Any] = json.loads(done.out)
    return schema


def problems(schema: dict[str, Any], *phases: dict[str, Any]) -> list[str]:
    document = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "b", "anything": 1},
        "actions": {"go": {"phases": [*phases]}},
    }
    return [error.message for error in Draft7Validator(schema).iter_errors(document)]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_schema_is_valid_and_names_its_kind(kanister: CommandLine, kind: str) -> None:
    schema = shown(kanister, kind.lower())

    Draft7Validator.check_schema(schema)
    assert schema["properties"]["kind"] == {"const": kind}


def test_blueprints_of_the_repository_match(
    blueprint_schema: dict[str, Any], repository: Path
) -> None:
    files = sorted((repository / "blueprints").rglob("blueprint.yaml"))
    assert files
    for file in files:
        for document in parse_documents(file.read_bytes()):
            errors = Draft7Validator(blueprint_schema).iter_errors(document.value)
            assert [error.message for error in errors] == []


KUBE_TASK = {"name": "a", "func": "KubeTask"}


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        pytest.param({**KUBE_TASK, "funcVersoin": "v0.1.0"}, "'funcVersoin'", id="key"),
        pytest.param(
            {**KUBE_TASK, "args": {"image": "a", "comand": ["b"]}}, "'comand'", id="argument"
        ),
        pytest.param(
            {**KUBE_TASK, "funcVersion": "v0.0.0", "args": {"command": ["b"]}},
            "'image' is a required property",
            id="missing argument",
        ),
        pytest.param({**KUBE_TASK, "retry": {"limit": "5"}}, "'5'", id="text for a number"),
    ],
)
def test_mistake_is_found(
    blueprint_schema: dict[str, Any], phase: dict[str, Any], message: str
) -> None:
    assert message in " ".join(problems(blueprint_schema, phase))


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param({"name": "a", "func": "OfAPackage", "args": {"b": 1}}, id="other function"),
        pytest.param({**KUBE_TASK, "funcVersion": "~0.1", "args": {"b": 1}}, id="range"),
        pytest.param(
            {**KUBE_TASK, "if": False, "args": {"image": 5, "command": "{{ .a }}"}}, id="loose"
        ),
    ],
)
def test_templates_are_accepted(blueprint_schema: dict[str, Any], phase: dict[str, Any]) -> None:
    assert problems(blueprint_schema, phase) == []


def deprecated(schema: dict[str, Any], function: str) -> set[str]:
    """Return the versions of a function that a schema marks as deprecated."""
    return {
        version["const"]
        for rule in schema["$defs"]["Phase"]["allOf"]
        if rule["if"]["properties"]["func"]["const"] == function
        for version in rule["then"]["properties"].get("funcVersion", {}).get("anyOf", ())
        if version.get("deprecated")
    }


def test_versions_that_are_deprecated_in_the_target_release_are_marked(
    kanister: CommandLine, blueprint_schema: dict[str, Any]
) -> None:
    before = shown(kanister, "Blueprint", "--target-release", "0.1.0")

    assert deprecated(before, "HTTPRequest") == set()
    assert deprecated(blueprint_schema, "HTTPRequest") == {"v0.1.0"}


def test_unknown_kind_is_refused_with_the_similar_one(kanister: CommandLine) -> None:
    done = kanister("schema", "show", "Bluprint")

    assert done.code == 64
    assert "did you mean Blueprint" in done.err
