"""Reference of functions: differences of versions, and revisions."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    FunctionRevision,
    Source,
)
from kanister_py.core.registry.reference import differences, revision_summary, version_reference
from kanister_py.core.versions.deprecation import Listing, Release
from kanister_py.core.versions.semver import parse_version


def reference(version: str, **arguments: Any) -> dict[str, Any]:
    described = [
        {
            "name": name,
            "type": "whole number",
            "required": default is ...,
            **({} if default in (..., None) else {"default": default}),
        }
        for name, default in arguments.items()
    ]
    return {"version": version, "arguments": described, "outputs": []}


@pytest.mark.parametrize(
    ("old", "new", "renamed", "expected"),
    [
        pytest.param({"tries": 1}, {"tries": 1}, {}, [], id="the same"),
        pytest.param({"tries": 1}, {"tries": 3}, {}, ["default-changed"], id="another default"),
        pytest.param({"tries": None}, {"tries": 3}, {}, ["default-changed"], id="one at all"),
        pytest.param(
            {"tries": 1},
            {"attempts": 1},
            {"tries": "attempts"},
            ["argument-renamed"],
            id="renamed",
        ),
        pytest.param(
            {"tries": 1},
            {"attempts": 3},
            {"tries": "attempts"},
            ["argument-renamed", "default-changed"],
            id="renamed, and another default",
        ),
        pytest.param(
            {"tries": 1},
            {"attempts": ...},
            {"tries": "attempts"},
            ["argument-renamed", "argument-required"],
            id="renamed, and required now",
        ),
    ],
)
def test_changed_default_is_reported_for_renamed_arguments(
    old: dict[str, Any], new: dict[str, Any], renamed: dict[str, str], expected: list[str]
) -> None:
    changes = differences(reference("v1.0.0", **old), reference("v2.0.0", **new), renamed)
    assert [change["what"] for change in changes] == expected
    assert all(change["breaking"] for change in changes)


@pytest.mark.parametrize(
    ("default", "text"), [(3, "3"), (False, "false"), ("é", '"é"')], ids=["3", "no", "text"]
)
def test_default_of_a_new_argument_is_written_like_in_yaml(default: Any, text: str) -> None:
    (change,) = differences(reference("v1.0.0"), reference("v2.0.0", tries=default))
    assert change["message"] == f"Argument tries is new; its default is {text}"


@pytest.mark.parametrize(
    ("old", "new", "breaks"),
    [
        pytest.param("text", "text or map or list of map", False, id="also a map"),
        pytest.param("text", "whole number", True, id="another"),
        pytest.param("map", "list of text or map", True, id="a list of maps"),
        pytest.param("text or map", "text", True, id="no map any more"),
    ],
)
def test_change_of_type_is_breaking_if_it_excludes_old_values(
    old: str, new: str, *, breaks: bool
) -> None:
    was, becomes = reference("v1.0.0", spec=None), reference("v2.0.0", spec=None)
    was["arguments"][0]["type"], becomes["arguments"][0]["type"] = old, new
    (change,) = differences(was, becomes)
    assert change["breaking"] is breaks


@pytest.mark.parametrize(
    ("is_ours", "origin"),
    [
        pytest.param(True, "built in", id="ours"),
        pytest.param(False, "plugin", id="of a plugin"),
    ],
)
def test_revision_has_the_origin_of_its_version(is_ours: bool, origin: str) -> None:
    one = parse_version("1.0.0")
    source = Source("acme", one, (Release(one),), is_ours=is_ours)
    listing = Listing(deprecated_in=one)
    entry = FunctionEntry("function-a", one, FunctionKind.COMPOSITION, source, "a:A", listing)
    assert version_reference(entry, None)["origin"] == origin
    installed = FunctionRevision("mine", "mine-1", 1, is_healthy=True)
    summary = revision_summary(installed.run_by(entry, "builtin:function-a@v1.0.0"))
    assert summary == {
        "origin": origin,
        "version": "v1.0.0",
        "runs": "function-a v1.0.0",
        "status": "deprecated",
        "deprecatedIn": "1.0.0",
    }
    assert revision_summary(installed) == {
        "origin": "package",
        "version": None,
        "runs": "",
        "status": "served",
    }
