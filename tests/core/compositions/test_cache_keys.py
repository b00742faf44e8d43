"""Responses that may be stored on disk."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.compositions.cache_keys import is_storable
from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse, Part

CONFIG_MAP = {"resource": {"apiVersion": "v1", "kind": "ConfigMap"}}
SECRET = {"resource": {"apiVersion": "v1", "kind": "Secret"}}


def state(resource: dict[str, Any]) -> Part:
    return Part({"composite": {"resource": {"kind": "XApp"}}, "resources": {"a": resource}})


@pytest.mark.parametrize(
    ("request_fields", "desired", "expected"),
    [
        pytest.param({}, CONFIG_MAP, True, id="no secrets"),
        pytest.param({}, SECRET, False, id="desired Secret"),
        pytest.param({"observed": state(SECRET)}, CONFIG_MAP, False, id="observed Secret"),
        pytest.param(
            {"observed": state({**CONFIG_MAP, "connectionDetails": {"a": "Yg=="}})},
            CONFIG_MAP,
            False,
            id="connection details",
        ),
        pytest.param(
            {"required_resources": {"r": {"items": [CONFIG_MAP]}}}, CONFIG_MAP, True, id="required"
        ),
        pytest.param(
            {"required_resources": {"r": {"items": [CONFIG_MAP, SECRET]}}},
            CONFIG_MAP,
            False,
            id="required Secret",
        ),
        pytest.param(
            {"extra_resources": {"r": {"items": [SECRET]}}}, CONFIG_MAP, False, id="extra Secret"
        ),
        pytest.param({"credentials": {"c": {}}}, CONFIG_MAP, False, id="credentials"),
    ],
)
def test_responses_with_secrets_are_not_stored(
    request_fields: dict[str, Any], desired: dict[str, Any], expected: bool
) -> None:
    request = FunctionRequest(**{"observed": state(CONFIG_MAP), **request_fields})
    assert is_storable(request, FunctionResponse(desired=state(desired))) is expected
