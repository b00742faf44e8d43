from __future__ import annotations

from typing import Any

import pytest

from kanister_py.functions.composition.extra_resources.v0_1_0 import ExtraResources
from kanister_py.functions.composition.extra_resources.v0_2_0 import ExtraResourcesV020

KEY = "apiextensions.crossplane.io/extra-resources"
KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
ONE: dict[str, Any] = {**KIND, "type": "Reference", "into": "one", "ref": {"name": "n"}}
LABEL = {
    "type": "FromCompositeFieldPath",
    "key": "tier",
    "valueFromFieldPath": "spec.tier",
    "fromFieldPathPolicy": "Optional",
}


def many(**more: Any) -> dict[str, Any]:
    selector = {"matchLabels": [LABEL], **more}
    return {**KIND, "type": "Selector", "into": "many", "selector": selector}


def answered(
    function: type[ExtraResources], *sources: dict[str, Any], **found: list[Any]
) -> dict[str, Any]:
    request: dict[str, Any] = {
        "observed": {"composite": {"resource": {"spec": {}}}},
        "input": {"spec": {"extraResources": list(sources)}},
    }
    if found:
        request["requiredResources"] = {
            key: {"items": [{"resource": obj} for obj in objects]} for key, objects in found.items()
        }
    return dict(function().run(request))


def test_selector_without_labels_has_an_empty_result() -> None:
    n = {**KIND, "metadata": {"name": "n"}}
    before = answered(ExtraResources, ONE, many(), one=[n])
    assert 'cannot find expected extra resource "many"' in before["results"][0]["message"]
    now = answered(ExtraResourcesV020, ONE, many(), one=[n])
    assert "results" not in now
    assert now["context"][KEY] == {"one": [n], "many": []}
    # It is not requested: without labels, all objects of the kind would be.
    assert list(now["requirements"]["resources"]) == ["one"]


def test_no_request_means_an_immediate_result() -> None:
    assert "context" not in answered(ExtraResources, many())
    now = answered(ExtraResourcesV020, many())
    assert now["context"][KEY] == {"many": []}
    assert now["requirements"] == {}


@pytest.mark.parametrize("sources", [(ONE,), (ONE, many())])
def test_requested_resources_are_waited_for(sources: tuple[dict[str, Any], ...]) -> None:
    assert "context" not in answered(ExtraResourcesV020, *sources)


def test_empty_result_is_checked_with_min_match() -> None:
    now = answered(ExtraResourcesV020, many(minMatch=1))
    assert 'expected at least 1 extra resources "many", got 0' in now["results"][0]["message"]
