"""Compositions of the mode Resources."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.compositions.resources_mode import (
    environment_configs_input,
    patch_and_transform_input,
)


def patched(**patch: Any) -> Any:
    """Return the converted form of a patch."""
    spec = {"resources": [{"name": "db", "base": {}, "patches": [{"fromFieldPath": "a", **patch}]}]}
    return patch_and_transform_input(spec)["resources"][0]["patches"][0]


@pytest.mark.parametrize(
    ("transform", "want"),
    [
        pytest.param(
            {"type": "string", "string": {"fmt": "%s-x"}},
            {"type": "string", "string": {"type": "Format", "fmt": "%s-x"}},
            id="a format",
        ),
        pytest.param(
            {"type": "string", "string": {"convert": "ToUpper"}},
            {"type": "string", "string": {"type": "Convert", "convert": "ToUpper"}},
            id="a conversion of a text",
        ),
        pytest.param(
            {"type": "math", "math": {"multiply": 2}},
            {"type": "math", "math": {"type": "Multiply", "multiply": 2}},
            id="a product",
        ),
        pytest.param(
            {"type": "math", "math": {"clampMax": 2}},
            {"type": "math", "math": {"type": "ClampMax", "clampMax": 2}},
            id="an upper bound",
        ),
        pytest.param(
            {"type": "match", "match": {"patterns": [{"literal": "a", "result": 1}]}},
            {
                "type": "match",
                "match": {"patterns": [{"type": "literal", "literal": "a", "result": 1}]},
            },
            id="a pattern",
        ),
        pytest.param(
            {"type": "string", "string": {"type": "TrimPrefix", "trim": "x"}},
            {"type": "string", "string": {"type": "TrimPrefix", "trim": "x"}},
            id="an explicit type",
        ),
        pytest.param(
            {"type": "map", "map": {"a": 1}}, {"type": "map", "map": {"a": 1}}, id="a map"
        ),
        pytest.param(
            {"string": 3}, {"string": 3}, id="an invalid value, which the function refuses"
        ),
    ],
)
def test_type_of_a_transform_is_set(transform: dict[str, Any], want: dict[str, Any]) -> None:
    assert patched(transforms=[transform]) == {"fromFieldPath": "a", "transforms": [want]}


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({}, "ForceMergeObjects"),
        ({"keepMapValues": True}, "MergeObjects"),
        ({"appendSlice": True}, "ForceMergeObjectsAppendArrays"),
        ({"keepMapValues": True, "appendSlice": True}, "MergeObjectsAppendArrays"),
    ],
)
def test_merge_options_become_a_policy(options: dict[str, bool], policy: str) -> None:
    written = {"fromFieldPath": "Required", "mergeOptions": options}
    assert patched(policy=written)["policy"] == {"fromFieldPath": "Required", "toFieldPath": policy}


def test_missing_names_and_types_are_set() -> None:
    details = [
        {"fromConnectionSecretKey": "host"},
        {"name": "port", "value": "5432"},
        {"name": "url", "fromFieldPath": "status.url"},
    ]
    input_ = patch_and_transform_input({"resources": [{"base": {}, "connectionDetails": details}]})
    assert input_["resources"] == [
        {
            "name": "resource-0",
            "base": {},
            "connectionDetails": [
                {
                    "type": "FromConnectionSecretKey",
                    "fromConnectionSecretKey": "host",
                    "name": "host",
                },
                {"type": "FromValue", "name": "port", "value": "5432"},
                {"type": "FromFieldPath", "name": "url", "fromFieldPath": "status.url"},
            ],
        }
    ]


def test_environment_becomes_a_step_of_its_own() -> None:
    configs = [{"type": "Reference", "ref": {"name": "zones"}}]
    environment = {
        "environmentConfigs": configs,
        "defaultData": {"zone": "a"},
        "policy": {"resolve": "Always", "resolution": "Optional"},
        "patches": [{"fromFieldPath": "zone", "toFieldPath": "status.zone"}],
    }
    spec = {"environment": environment, "resources": []}
    assert environment_configs_input(spec) == {
        "apiVersion": "environmentconfigs.fn.crossplane.io/v1beta1",
        "kind": "Input",
        "spec": {
            "environmentConfigs": configs,
            "defaultData": {"zone": "a"},
            "policy": {"resolution": "Optional"},
        },
    }
    assert patch_and_transform_input(spec)["environment"] == {"patches": environment["patches"]}
    assert environment_configs_input({"resources": []}) is None
