from __future__ import annotations

import copy
from typing import Any

import pytest

from kanister_py.functions.composition.extra_resources.v0_1_0 import ExtraResources

KEY = "apiextensions.crossplane.io/extra-resources"
KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
ONE: dict[str, Any] = {**KIND, "type": "Reference", "into": "a", "ref": {"name": "n"}}
LABELS: list[dict[str, Any]] = [{"type": "Value", "key": "x", "value": "y"}]


def many(**more: Any) -> dict[str, Any]:
    return {**KIND, "type": "Selector", "into": "b", "selector": {"matchLabels": LABELS, **more}}


def named(*names: str) -> list[dict[str, Any]]:
    return [{**KIND, "metadata": {"name": name}} for name in names]


def answered(
    sources: list[dict[str, Any]], found: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    spec["extraResources"] = sources
    ExtraResources.described_input().model_validate({"spec": spec})
    request: dict[str, Any] = {
        "observed": {"composite": {"resource": {"spec": {"region": "eu"}}}},
        "input": {"spec": spec},
        "context": {"kept": 1},
    }
    if found is not None:
        request["requiredResources"] = {
            key: {"items": [{"resource": obj} for obj in objects]} for key, objects in found.items()
        }
    before = copy.deepcopy(request)
    answer = dict(ExtraResources().run(request))
    assert request == before, "a function leaves its request alone"
    return answer


def fatal_of(answer: dict[str, Any]) -> str:
    (result,) = answer["results"]
    assert result["severity"] == "SEVERITY_FATAL"
    assert answer["context"] == {"kept": 1}
    return str(result["message"])


def test_resources_are_requested_until_they_exist() -> None:
    answer = answered([{**ONE, "namespace": "ns"}, many()])
    assert answer["requirements"] == {
        "resources": {
            "a": {**KIND, "matchName": "n", "namespace": "ns"},
            "b": {**KIND, "matchLabels": {"labels": {"x": "y"}}},
        }
    }
    assert answer["context"] == {"kept": 1}


def test_fetched_resources_are_sorted_in_the_context() -> None:
    answer = answered([ONE, many()], {"a": named("n"), "b": named("z", "y", "x")})
    assert answer["context"] == {
        "kept": 1,
        KEY: {"a": named("n"), "b": named("x", "y", "z")},
    }


def test_context_key_and_maximum_number() -> None:
    source = many(maxMatch=1, sortByFieldPath="metadata.name")
    answer = answered([source], {"b": named("z", "y")}, context={"key": "mine"})
    assert answer["context"]["mine"] == {"b": named("y")}


def test_selector_may_match_nothing_and_reference_may_be_optional() -> None:
    answer = answered([many()], {"b": []})
    assert answer["context"][KEY] == {"b": []}
    answer = answered([ONE], {"a": []}, policy={"resolution": "Optional"})
    assert answer["context"][KEY] == {}


@pytest.mark.parametrize(
    ("source", "found", "want"),
    [
        (ONE, {"a": []}, 'Required extra resource "a" not found'),
        (ONE, {"a": named("n", "n")}, 'expected exactly one extra resource "a", got 2'),
        (ONE, {"z": []}, 'cannot find expected extra resource "a"'),
        (many(minMatch=2), {"b": named("n")}, 'expected at least 2 extra resources "b", got 1'),
        (many(sortByFieldPath=""), {"b": named("n")}, "cannot sort by empty field path"),
        (many(sortByFieldPath="kind.x"), {"b": named("n")}, "kind: not an object"),
    ],
)
def test_missing_resources_have_the_originals_messages(
    source: dict[str, Any], found: dict[str, Any], want: str
) -> None:
    message = fatal_of(answered([source], found))
    assert message == f"verifying and sorting extra resources: {want}"


def test_selector_without_labels_requests_nothing() -> None:
    lost = [{"key": "x", "valueFromFieldPath": "spec.nope", "fromFieldPathPolicy": "Optional"}]
    assert answered([many(matchLabels=lost)])["requirements"] == {}


def test_missing_required_label_is_fatal() -> None:
    message = fatal_of(answered([many(matchLabels=[{"key": "x", "valueFromFieldPath": "spec.z"}])]))
    assert message == (
        "could not build extra resource requirements: "
        'cannot get value from field path "spec.z": spec.z: no such field'
    )


def test_reference_without_name_is_an_error() -> None:
    source = {key: value for key, value in ONE.items() if key != "ref"}
    assert "without ref.name" in fatal_of(answered([source]))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"bogus": 1}, 'spec: unknown name "bogus"'),
        ({"extraResources": {}}, "spec.extraResources must be an array"),
        ({"extraResources": [{"into": 1}]}, "spec.extraResources[0].into must be a string"),
        (
            {"extraResources": [{"selector": {"minMatch": 1.5}}]},
            "spec.extraResources[0].selector.minMatch must be a whole number",
        ),
        ({"policy": "Optional"}, "spec.policy must be an object"),
    ],
)
def test_invalid_input_is_fatal_with_its_path(spec: dict[str, Any], message: str) -> None:
    answer = ExtraResources().run({"input": {"spec": spec}})
    assert answer["results"][0]["message"].endswith(f"json: {message}")
