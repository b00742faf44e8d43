from __future__ import annotations

import copy
from typing import Any

import pytest

from kanister_py.functions.composition.environment_configs.v0_1_0 import EnvironmentConfigs

ENVIRONMENT = "apiextensions.crossplane.io/environment"
GVK = {"apiVersion": "internal.crossplane.io/v1alpha1", "kind": "Environment"}
BASE: dict[str, Any] = {"type": "Reference", "ref": {"name": "base"}}
LABELS: list[dict[str, Any]] = [{"type": "Value", "key": "a", "value": "b"}]


def selector(**more: Any) -> dict[str, Any]:
    return {"type": "Selector", "selector": {"matchLabels": LABELS, **more}}


def config(name: str, data: Any = None) -> dict[str, Any]:
    manifest: dict[str, Any] = {"kind": "EnvironmentConfig", "metadata": {"name": name}}
    return manifest if data is None else {**manifest, "data": data}


def answered(
    sources: list[dict[str, Any]] | None,
    *fetched_objects: list[dict[str, Any]] | None,
    environment: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    if sources is not None:
        spec["environmentConfigs"] = sources
    EnvironmentConfigs.described_input().model_validate({"spec": spec})
    request: dict[str, Any] = {
        "observed": {"composite": {"resource": {"spec": {"region": "eu", "size": 1}}}},
        "input": {"spec": spec},
        "context": {} if environment is None else {ENVIRONMENT: environment},
    }
    fetched = {
        f"environment-config-{at}": {"items": [{"resource": obj} for obj in objects]}
        for at, objects in enumerate(fetched_objects)
        if objects is not None
    }
    if fetched:
        request["requiredResources"] = fetched
    before = copy.deepcopy(request)
    answer = dict(EnvironmentConfigs().run(request))
    assert request == before, "a function leaves its request alone"
    return answer


def environment_of(answer: dict[str, Any]) -> Any:
    assert answer.get("results") is None
    return answer["context"][ENVIRONMENT]


def fatal_of(answer: dict[str, Any]) -> str:
    (result,) = answer["results"]
    assert result["severity"] == "SEVERITY_FATAL"
    return str(result["message"])


def test_configs_are_requested_by_name_and_by_labels() -> None:
    answer = answered([BASE, selector(), {"type": "Selector", "selector": {}}])
    kind = {"apiVersion": "apiextensions.crossplane.io/v1beta1", "kind": "EnvironmentConfig"}
    assert answer["requirements"]["resources"] == {
        "environment-config-0": {**kind, "matchName": "base"},
        "environment-config-1": {**kind, "matchLabels": {"labels": {"a": "b"}}},
    }
    assert "context" not in answer


def test_precedence_of_configs_environment_and_defaults() -> None:
    answer = answered(
        [BASE, selector(mode="Multiple")],
        [config("base", {"a": 1, "m": {"x": 1, "y": 1}})],
        [config("z", {"m": {"y": 2}}), config("y", {"m": {"y": 3, "z": 3}})],
        environment={"a": 0, "b": 5, "kept": True},
        defaultData={"b": 4, "c": 6},
    )
    assert environment_of(answer) == {
        **GVK,
        "a": 1,
        "b": 5,
        "c": 6,
        "kept": True,
        "m": {"x": 1, "y": 2, "z": 3},
    }


def test_data_is_written_to_a_field_path() -> None:
    answer = answered([{**BASE, "toFieldPath": "under.here"}], [config("base", {"a": 1})])
    assert environment_of(answer) == {**GVK, "under": {"here": {"a": 1}}}


def test_environment_keeps_its_kind() -> None:
    assert environment_of(answered([BASE], [config("base", {"kind": "Mine"})])) == {"kind": "Mine"}


def test_defaults_are_ignored_without_configs() -> None:
    answer = answered(None, defaultData={"a": 1}, environment={"kept": 1})
    assert answer["context"] == {ENVIRONMENT: {"kept": 1}}
    assert "requirements" not in answer


def test_optional_reference_may_be_missing() -> None:
    assert environment_of(answered([BASE], [], policy={"resolution": "Optional"})) == GVK


@pytest.mark.parametrize(
    ("more", "want"),
    [
        ({}, ["n1", "n2", "n3"]),
        ({"maxMatch": 2}, ["n1", "n2"]),
        ({"sortByFieldPath": "data.order"}, ["n3", "n1", "n2"]),
        ({"sortByFieldPath": "data.nope"}, ["n2", "n1", "n3"]),
    ],
)
def test_configs_are_sorted_and_limited(more: dict[str, Any], want: list[str]) -> None:
    objects = [
        config("n2", {"order": 2}),
        config("n1", {"order": 1.5}),
        config("n3", {}),
    ]
    for at, obj in enumerate(objects):
        obj["data"] |= {obj["metadata"]["name"]: at, "last": obj["metadata"]["name"]}
    environment = environment_of(answered([selector(mode="Multiple", **more)], objects))
    assert environment["last"] == want[-1]
    assert [key for key in ("n1", "n2", "n3") if key in environment] == sorted(want)


FATAL: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = [
    (
        (
            'cannot get selected environment configs: cannot process environment config "base" by '
            'reference, "environment-config-0": Required environment config "base" not found'
        ),
        BASE,
        [],
    ),
    (
        (
            'cannot get selected environment configs: cannot process environment config "base" by '
            'reference, "environment-config-0": '
            'expected exactly one required resource "base", got 2'
        ),
        BASE,
        [config("base", {}), config("base", {})],
    ),
    (
        (
            "cannot get selected environment configs: cannot process environment config "
            '"environment-config-0" by selector: expected exactly one required resource, got 0'
        ),
        selector(),
        [],
    ),
    (
        (
            "cannot get selected environment configs: cannot process environment config "
            '"environment-config-0" by selector: expected at least 2 required resources, got 1'
        ),
        selector(mode="Multiple", minMatch=2),
        [config("a", {})],
    ),
    (
        (
            "cannot get selected environment configs: cannot process environment config "
            '"environment-config-0" by selector: cannot sort values of different types "float64" '
            'and "string"'
        ),
        selector(mode="Multiple", sortByFieldPath="data.n"),
        [config("a", {"n": 1}), config("b", {"n": "1"})],
    ),
    (
        (
            "cannot get selected environment configs: cannot process environment config "
            '"environment-config-0" by selector: unsupported type "bool" for sorting'
        ),
        selector(mode="Multiple", sortByFieldPath="data.n"),
        [config("a", {"n": True}), config("b", {"n": False})],
    ),
    (
        (
            'cannot merge environment data: cannot get data from environment config "base": '
            "data: no such field"
        ),
        BASE,
        [config("base")],
    ),
    (
        (
            "cannot merge environment data: cannot get data from environment config base into path "
            '"a["'
        ),
        {**BASE, "toFieldPath": "a["},
        [config("base", {})],
    ),
]


@pytest.mark.parametrize(
    ("want", "source", "fetched"), FATAL, ids=[case[0][-40:] for case in FATAL]
)
def test_merge_errors_have_the_originals_messages(
    want: str, source: dict[str, Any], fetched: list[dict[str, Any]]
) -> None:
    assert fatal_of(answered([source], fetched)) == want


@pytest.mark.parametrize(
    ("label", "want"),
    [
        (
            {"key": "k", "valueFromFieldPath": "spec.nope"},
            'cannot get value from field path "spec.nope": spec.nope: no such field',
        ),
        (
            {"key": "k", "valueFromFieldPath": "spec.size"},
            'cannot get value from field path "spec.size": spec.size: not a string',
        ),
        ({"key": "k", "type": "Value"}, 'the label "k" has no value'),
        ({"key": "k"}, 'the label "k" has no valueFromFieldPath'),
    ],
)
def test_unresolvable_label_is_fatal(label: dict[str, Any], want: str) -> None:
    source = {"type": "Selector", "selector": {"matchLabels": [label]}}
    assert fatal_of(answered([source])) == f"cannot build requirements: {want}"


def test_label_from_the_composite_resource_may_be_optional() -> None:
    labels = [
        {"key": "k", "valueFromFieldPath": "spec.region"},
        {"key": "z", "valueFromFieldPath": "spec.nope", "fromFieldPathPolicy": "Optional"},
    ]
    answer = answered([{"type": "Selector", "selector": {"matchLabels": labels}}])
    (requirement,) = answer["requirements"]["resources"].values()
    assert requirement["matchLabels"] == {"labels": {"k": "eu"}}


def test_label_from_the_existing_environment() -> None:
    match_label = {
        "key": "k",
        "type": "FromEnvironmentFieldPath",
        "valueFromFieldPath": "spec.region",
    }
    source = {"type": "Selector", "selector": {"matchLabels": [match_label]}}
    answer = answered([source], environment={"spec": {"region": "us"}})
    (requirement,) = answer["requirements"]["resources"].values()
    assert requirement["matchLabels"] == {"labels": {"k": "us"}}
    message = fatal_of(answered([source]))
    assert message.endswith('cannot get value from field path "spec.region": spec: no such field')
    match_label["fromFieldPathPolicy"] = "Optional"
    assert answered([source])["requirements"] == {}


def test_reference_without_name_is_an_error() -> None:
    message = fatal_of(answered([{"type": "Reference"}]))
    assert message.endswith("spec.environmentConfigs[0] is a Reference without ref.name")
