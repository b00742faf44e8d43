"""Resources composed from a composite resource."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kanister_py.functions.composition.patch_and_transform.v0_1_0 import PatchAndTransform

Run = Callable[..., Mapping[str, Any]]
Patched = Callable[..., Any]

COMPOSITE: dict[str, Any] = {
    "apiVersion": "example.org/v1",
    "kind": "XBucket",
    "metadata": {"name": "x", "namespace": "ns"},
    "spec": {"region": "eu", "size": 20, "items": [1, 2]},
}
SEEN: dict[str, Any] = {
    "resource": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "seen", "namespace": "there"},
        "data": {"n": 7, "v": "ov", "t": True, "obj": {"a": 1}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    },
    "connectionDetails": {"user": "YWRtaW4="},
}
NOT_READY: dict[str, Any] = {"resource": {**SEEN["resource"], "status": {}}}
BASE: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}
FILLED: dict[str, Any] = {
    **BASE,
    "data": {"keep": 1, "list": [1, 2]},
    "objs": [{"v": 0}, {"v": 1}],
    "null": None,
}
KEY = "apiextensions.crossplane.io/environment"
ENVIRONMENT = {"apiVersion": "internal.crossplane.io/v1alpha1", "kind": "Environment"}


def _messages(answer: Mapping[str, Any]) -> list[str]:
    return [f"{result['severity'][9:]} {result['message']}" for result in answer.get("results", ())]


def _combine(kind: str, format_: str, *paths: str, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "combine": {
            "strategy": "string",
            "string": {"fmt": format_},
            "variables": [{"fromFieldPath": path} for path in paths],
        },
        "toFieldPath": "out",
        **more,
    }


def test_template_composes_a_resource(run: Run) -> None:
    answer = run()
    assert answer == {
        "meta": {"tag": "t", "ttl": "60s"},
        "desired": {
            "composite": {"resource": {"apiVersion": "example.org/v1", "kind": "XBucket"}},
            "resources": {"r": {"resource": BASE}},
        },
        "context": {KEY: ENVIRONMENT},
    }


@pytest.mark.parametrize(
    ("patch", "out"),
    [
        pytest.param({"fromFieldPath": "spec.region"}, "eu", id="by default from the composite"),
        pytest.param({"fromFieldPath": "spec.missing"}, "nothing", id="what is missing is skipped"),
        pytest.param({"fromFieldPath": "spec.null.deep"}, "nothing", id="inside null, too"),
        pytest.param({"fromFieldPath": "spec.null"}, None, id="null is something"),
        pytest.param({"fromFieldPath": "spec.map"}, {"k": "v", "x.y": "z"}, id="a map"),
        pytest.param({"fromFieldPath": "spec.map[x.y]"}, "z", id="a name with a dot"),
        pytest.param(
            _combine("CombineFromComposite", "%s-%v", "spec.region", "spec.size"),
            "eu-20",
            id="combined",
        ),
        pytest.param(
            _combine("CombineFromComposite", "%s-%d", "spec.region", "spec.size"),
            "eu-%!d(float64=20)",
            id="numbers of a request are doubles",
        ),
        pytest.param(
            _combine("CombineFromComposite", "%s%s", "spec.region", "spec.missing"),
            "nothing",
            id="nothing of what is not all there",
        ),
        pytest.param(
            {"type": "FromEnvironmentFieldPath", "fromFieldPath": "zone"}, "z1", id="environment"
        ),
        pytest.param(
            _combine("CombineFromEnvironment", "%s/%s", "zone", "zone"), "z1/z1", id="combined, too"
        ),
        pytest.param(
            {"type": "ToCompositeFieldPath", "fromFieldPath": "data.v"},
            "nothing",
            id="nothing can be read of what is not there yet",
        ),
    ],
)
def test_patch_of_a_new_resource(patch: dict[str, Any], out: Any, patched: Patched) -> None:
    assert patched({"toFieldPath": "out", **patch}, environment={"zone": "z1"}) == out


def test_target_path_defaults_to_the_source_path(patched: Patched) -> None:
    assert patched({"fromFieldPath": "spec.region"}, out="spec") == {"region": "eu"}


@pytest.mark.parametrize(
    ("kind", "out"),
    [
        pytest.param("Replace", {"keep": 2, "list": [2, 3], "new": 1}, id="Replace"),
        pytest.param("MergeObjects", {"keep": 1, "list": [1, 2], "new": 1}, id="MergeObjects"),
        pytest.param("MergeObject", {"keep": 1, "list": [1, 2], "new": 1}, id="MergeObject"),
        pytest.param(
            "MergeObjectsAppendArrays",
            {"keep": 1, "list": [1, 2, 2, 3], "new": 1},
            id="MergeObjectsAppendArrays: twice what is there twice, inside",
        ),
        pytest.param(
            "ForceMergeObjects", {"keep": 2, "list": [2, 3], "new": 1}, id="ForceMergeObjects"
        ),
        pytest.param(
            "ForceMergeObjectsAppendArrays",
            {"keep": 2, "list": [1, 2, 2, 3], "new": 1},
            id="ForceMergeObjectsAppendArrays",
        ),
        pytest.param("AppendArray", {"keep": 2, "list": [1, 2, 2, 3], "new": 1}, id="AppendArray"),
    ],
)
def test_merge_policies(kind: str, out: Any, patched: Patched) -> None:
    output = patched(
        {"fromFieldPath": "coming", "toFieldPath": "data", "policy": {"toFieldPath": kind}},
        composite={**COMPOSITE, "coming": {"keep": 2, "list": [2, 3], "new": 1}},
        base=FILLED,
        out="data",
    )
    assert output == out


def test_append_skips_existing_elements(patched: Patched) -> None:
    patch = {
        "fromFieldPath": "spec.items",
        "toFieldPath": "out",
        "policy": {"toFieldPath": "AppendArray"},
    }
    base = {**BASE, "out": [2, 3]}
    assert patched(patch, composite=COMPOSITE, base=base) == [2, 3, 1]


def test_append_treats_numbers_of_earlier_steps_as_new(run: Run) -> None:
    patch = {
        "fromFieldPath": "spec.items",
        "toFieldPath": "out",
        "policy": {"toFieldPath": "AppendArray"},
    }
    answer = run(
        [{"name": "r", "patches": [patch]}],
        composite=COMPOSITE,
        desired={"resources": {"r": {"resource": {**BASE, "out": [2, 3]}}}},
    )
    assert answer["desired"]["resources"]["r"]["resource"]["out"] == [2, 3, 1, 2]


def test_wildcard_writes_to_all_elements(patched: Patched) -> None:
    assert patched(
        {"fromFieldPath": "spec.map", "toFieldPath": "objs[*].v"}, base=FILLED, out="objs"
    ) == [{"v": {"k": "v", "x.y": "z"}}, {"v": {"k": "v", "x.y": "z"}}]


def test_values_written_twice_are_not_shared(run: Run) -> None:
    patches = [
        {"fromFieldPath": "spec.map", "toFieldPath": "objs[*].v"},
        {"fromFieldPath": "spec.region", "toFieldPath": "objs[0].v.k"},
    ]
    resource = run([{"name": "r", "base": FILLED, "patches": patches}])
    objs = resource["desired"]["resources"]["r"]["resource"]["objs"]
    assert [obj["v"]["k"] for obj in objs] == ["eu", "v"]


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"fromFieldPath": "spec.region.deep"}, "spec.region: not an object"),
        ({"fromFieldPath": "spec.names[x]"}, "spec.names: not an object"),
        ({"fromFieldPath": "spec[0]"}, "spec: not an array"),
        (
            {"fromFieldPath": "spec..x"},
            "cannot parse path \"spec..x\": unexpected '.' at position 5",
        ),
        (
            {"fromFieldPath": "spec.region", "toFieldPath": "kind.x"},
            "cannot patch to object: kind is not an object",
        ),
        (
            {"fromFieldPath": "spec.region", "toFieldPath": "null.x"},
            "cannot patch to object: null is not an object",
        ),
        (
            {"fromFieldPath": "spec.region", "toFieldPath": "a[1025]"},
            "cannot patch to object: index 1025 is greater than max allowed index 1024",
        ),
        (
            {"fromFieldPath": "spec.region", "toFieldPath": "missing[*]"},
            "cannot expand ToFieldPath missing[*]",
        ),
        (
            {"fromFieldPath": "spec.region", "toFieldPath": "objs[*].new"},
            "cannot expand ToFieldPath objs[*].new",
        ),
        (
            {"fromFieldPath": "spec.region", "toFieldPath": "kind[*]"},
            'cannot expand wildcards for segments: "kind[*]": "kind": unexpected wildcard usage',
        ),
        (
            {
                "fromFieldPath": "spec.names",
                "toFieldPath": "data",
                "policy": {"toFieldPath": "AppendArray"},
            },
            (
                "cannot patch to object: failed to merge values: cannot append two slices with "
                "different type ([]interface {}, map[string]interface {})"
            ),
        ),
        (
            {"fromFieldPath": "spec.size", "toFieldPath": "kind"},
            (
                "cannot patch to object: Object 'Kind' is missing in "
                '\'{"apiVersion":"v1","data":{"keep":1,"list":[1,2]},"kind":20,"null":null,'
                '"objs":[{"v":0},{"v":1}]}\''
            ),
        ),
    ],
)
def test_failed_patch_is_fatal(patch: dict[str, Any], why: str, run: Run) -> None:
    answer = run(
        [{"name": "r", "base": FILLED, "patches": [patch]}], desired={"resources": {"old": {}}}
    )
    prefix = 'cannot render composed resource "r" "FromCompositeFieldPath" patch at index 0: '
    assert answer == {
        "meta": {"tag": "t", "ttl": "60s"},
        "desired": {"resources": {"old": {}}},
        "results": [
            {
                "severity": "SEVERITY_FATAL",
                "message": prefix + why,
                "target": "TARGET_COMPOSITE",
            }
        ],
    }


def test_wildcard_in_null_matches_nothing(patched: Patched) -> None:
    assert patched({"fromFieldPath": "spec.region", "toFieldPath": "null[*]"}, base=FILLED) == (
        "nothing"
    )


# Policies of sources


def test_resource_with_missing_required_field_is_not_composed(run: Run) -> None:
    patch = {
        "fromFieldPath": "spec.missing",
        "toFieldPath": "out",
        "policy": {"fromFieldPath": "Required"},
    }
    answer = run([{"name": "r", "base": BASE, "patches": [patch]}, {"name": "s", "base": BASE}])
    assert _messages(answer) == [
        (
            'WARNING not adding new composed resource "r" to desired state because '
            '"FromCompositeFieldPath" patch at index 0 has '
            "'policy.fromFieldPath: Required': spec.missing: no such field"
        )
    ]
    assert answer["desired"]["composite"]["ready"] == "READY_FALSE"
    assert list(answer["desired"]["resources"]) == ["s"]


def test_existing_resource_remains_without_required_field(run: Run) -> None:
    patches = [
        {
            "fromFieldPath": "spec.missing",
            "toFieldPath": "out",
            "policy": {"fromFieldPath": "Required"},
        },
        {"fromFieldPath": "spec.region", "toFieldPath": "out"},
    ]
    answer = run([{"name": "r", "base": BASE, "patches": patches}], observed={"r": SEEN})
    assert _messages(answer) == [
        (
            'WARNING cannot render composed resource "r" "FromCompositeFieldPath" patch at index '
            "0: ignoring 'policy.fromFieldPath: Required' because 'to' resource already exists: "
            "spec.missing: no such field"
        )
    ]
    assert answer["desired"]["resources"]["r"]["resource"]["out"] == "eu"
    assert "ready" not in answer["desired"]["composite"]


# Observed resources


def test_observed_resource_keeps_its_names(run: Run) -> None:
    base = {**BASE, "metadata": {"name": "mine", "labels": {"a": "b"}}}
    answer = run([{"name": "r", "base": base}], observed={"r": SEEN})
    assert answer["desired"]["resources"]["r"] == {
        "ready": "READY_TRUE",
        "resource": {
            **BASE,
            "metadata": {"name": "seen", "namespace": "there", "labels": {"a": "b"}},
        },
    }


def test_observed_resource_without_names_uses_those_of_the_base(run: Run) -> None:
    base = {**BASE, "metadata": {"name": "mine", "namespace": "ours"}}
    answer = run([{"name": "r", "base": base}], observed={"r": {"resource": BASE}})
    assert answer["desired"]["resources"]["r"]["resource"] == {**BASE, "metadata": {}}


def test_observed_fields_are_patched_to_composite_and_environment(run: Run) -> None:
    patches = [
        {"type": "ToCompositeFieldPath", "fromFieldPath": "data.n", "toFieldPath": "status.n"},
        _combine("CombineToComposite", "%s-%v", "data.v", "data.n", toFieldPath="status.c"),
        {"type": "ToEnvironmentFieldPath", "fromFieldPath": "data.n", "toFieldPath": "n"},
        _combine("CombineToEnvironment", "%s", "data.v", toFieldPath="v"),
        {
            "type": "FromEnvironmentFieldPath",
            "fromFieldPath": "n",
            "toFieldPath": "out",
            "transforms": [{"type": "string", "string": {"type": "Format", "fmt": "%d"}}],
        },
    ]
    answer = run([{"name": "r", "base": BASE, "patches": patches}], observed={"r": SEEN})
    assert answer["desired"]["composite"]["resource"]["status"] == {"n": 7, "c": "ov-7"}
    assert answer["context"][KEY] == {**ENVIRONMENT, "n": 7, "v": "ov"}
    # An integer, because it was written to the environment before.
    assert answer["desired"]["resources"]["r"]["resource"]["out"] == "7"


# Earlier steps


def test_resource_of_an_earlier_step_is_patched(run: Run) -> None:
    desired = {
        "composite": {
            "resource": {"status": {"a": 1}},
            "ready": "READY_TRUE",
            "connectionDetails": {"k": "dg=="},
        },
        "resources": {
            "r": {"resource": {**BASE, "a": 1}, "ready": "READY_TRUE"},
            "o": {"resource": BASE, "ready": "READY_FALSE", "connectionDetails": {"k": "dg=="}},
            "u": {"resource": BASE, "ready": "READY_UNSPECIFIED"},
        },
    }
    patch = {"fromFieldPath": "spec.region", "toFieldPath": "out"}
    answer = run([{"name": "r", "patches": [patch]}], desired=desired)
    assert answer["desired"] == {
        "composite": {
            "resource": {
                "apiVersion": "example.org/v1",
                "kind": "XBucket",
                "status": {"a": 1},
            },
            "ready": "READY_TRUE",
            "connectionDetails": {"k": "dg=="},
        },
        "resources": {
            "r": {"resource": {**BASE, "a": 1, "out": "eu"}},
            "o": {"resource": BASE, "ready": "READY_FALSE"},
            "u": {"resource": BASE},
        },
    }


def test_resource_without_base_requires_an_earlier_step(run: Run) -> None:
    assert _messages(run([{"name": "r"}])) == [
        (
            'FATAL composed resource "r" has no base template, and was not produced by a previous '
            "Function in the pipeline"
        )
    ]


@pytest.mark.parametrize(
    ("base", "why"),
    [
        ({"apiVersion": "v1"}, "Object 'Kind' is missing in '{\"apiVersion\":\"v1\"}'"),
        ({"kind": 1}, "Object 'Kind' is missing in '{\"kind\":1}'"),
        ("text", "json: cannot unmarshal value into Go value of type map[string]interface {}"),
    ],
)
def test_invalid_base_is_fatal(base: Any, why: str, run: Run) -> None:
    assert _messages(run([{"name": "r", "base": base}])) == [
        f'FATAL cannot parse base template of composed resource "r": {why}'
    ]


# Environment


@pytest.mark.parametrize(
    ("patch", "environment", "composite"),
    [
        ({"fromFieldPath": "spec.region", "toFieldPath": "out"}, "eu", None),
        (
            {
                "type": "ToEnvironmentFieldPath",
                "fromFieldPath": "spec.region",
                "toFieldPath": "out",
            },
            "eu",
            None,
        ),
        (_combine("CombineFromComposite", "%s!", "spec.region"), "eu!", None),
        (
            {"type": "ToCompositeFieldPath", "fromFieldPath": "zone", "toFieldPath": "out"},
            None,
            "z1",
        ),
        (
            {"type": "FromEnvironmentFieldPath", "fromFieldPath": "zone", "toFieldPath": "out"},
            None,
            "z1",
        ),
        (_combine("CombineToComposite", "%s!", "zone"), None, "z1!"),
        ({"fromFieldPath": "spec.missing", "toFieldPath": "out"}, None, None),
    ],
)
def test_patches_between_composite_and_environment(
    patch: dict[str, Any], environment: Any, composite: Any
) -> None:
    answer = _run_environment([patch], {"zone": "z1"})
    assert answer["context"][KEY].get("out") == environment
    assert answer["desired"]["composite"]["resource"].get("out") == composite


def _run_environment(patches: list[Any], environment: Any) -> Mapping[str, Any]:
    return PatchAndTransform().run(
        {
            "observed": {"composite": {"resource": COMPOSITE}},
            "context": {KEY: environment, "other": 1},
            "input": {"environment": {"patches": patches}},
        }
    )


def test_required_field_of_an_environment_patch_must_exist() -> None:
    patch = {
        "type": "ToCompositeFieldPath",
        "fromFieldPath": "missing",
        "toFieldPath": "out",
        "policy": {"fromFieldPath": "Required"},
    }
    answer = _run_environment([patch], {"zone": "z1"})
    assert _messages(answer) == [
        (
            'FATAL cannot apply the "ToCompositeFieldPath" environment patch at index 0: '
            "missing: no such field"
        )
    ]
    assert answer["context"] == {KEY: {"zone": "z1"}, "other": 1}
    assert "desired" not in answer


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"zone": "z1"}, {**ENVIRONMENT, "zone": "z1"}),
        ({"kind": "Mine"}, {"kind": "Mine"}),
        ({"apiVersion": "a/v1"}, {"apiVersion": "a/v1"}),
        ({"apiVersion": "a/b/c"}, ENVIRONMENT),
        ("text", ENVIRONMENT),
        (None, ENVIRONMENT),
    ],
)
def test_environment_gets_a_kind(given: Any, kept: dict[str, Any]) -> None:
    optional = {"fromFieldPath": "spec.missing"}
    answer = _run_environment([optional], given)
    assert answer["context"] == {KEY: kept, "other": 1}


# Patch sets


def test_patch_set_is_applied_in_its_place(run: Run) -> None:
    patches = [
        {"fromFieldPath": "spec.size", "toFieldPath": "out"},
        {"type": "PatchSet", "patchSetName": "s"},
    ]
    sets = [{"name": "s", "patches": [{"fromFieldPath": "spec.region", "toFieldPath": "out"}]}]
    answer = run([{"name": "r", "base": BASE, "patches": patches}], patchSets=sets)
    assert answer["desired"]["resources"]["r"]["resource"]["out"] == "eu"


def test_unknown_patch_set_is_fatal(run: Run) -> None:
    patches = [{"type": "PatchSet", "patchSetName": "s"}]
    assert _messages(run([{"name": "r", "base": BASE, "patches": patches}])) == [
        "FATAL cannot resolve PatchSets: cannot find PatchSet by name s"
    ]


# Readiness


@pytest.mark.parametrize(
    ("checks", "ready"),
    [
        ([], True),
        ([{"type": "None"}], True),
        ([{"type": "NonEmpty", "fieldPath": "data.v"}], True),
        ([{"type": "NonEmpty", "fieldPath": "data.x"}], False),
        ([{"type": "MatchString", "fieldPath": "data.v", "matchString": "ov"}], True),
        ([{"type": "MatchString", "fieldPath": "data.v", "matchString": "x"}], False),
        ([{"type": "MatchTrue", "fieldPath": "data.t"}], True),
        ([{"type": "MatchFalse", "fieldPath": "data.t"}], False),
        ([{"type": "MatchTrue", "fieldPath": "data.missing"}], False),
        (
            [{"type": "MatchCondition", "matchCondition": {"type": "Ready", "status": "True"}}],
            True,
        ),
        (
            [{"type": "MatchCondition", "matchCondition": {"type": "New", "status": "Unknown"}}],
            True,
        ),
        ([{"type": "None"}, {"type": "NonEmpty", "fieldPath": "data.x"}], False),
    ],
)
def test_all_checks_must_hold(checks: list[Any], ready: bool, run: Run) -> None:
    answer = run([{"name": "r", "base": BASE, "readinessChecks": checks}], observed={"r": SEEN})
    assert ("ready" in answer["desired"]["resources"]["r"]) is ready
    assert not answer.get("results")


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (
            {"type": "MatchInteger", "fieldPath": "data.n", "matchInteger": 7},
            "data.n: not a (int64) number",
        ),
        (
            {"type": "MatchString", "fieldPath": "data.n", "matchString": "7"},
            "data.n: not a string",
        ),
        ({"type": "MatchTrue", "fieldPath": "data.v"}, "data.v: not a bool"),
        ({"type": "NonEmpty", "fieldPath": "data.v.x"}, "data.v: not an object"),
        ({"type": "MatchCondition"}, "matchCondition is required by type MatchCondition"),
    ],
)
def test_failed_readiness_check_is_reported(check: dict[str, Any], why: str, run: Run) -> None:
    checks = [{"type": "None"}, check]
    answer = run([{"name": "r", "base": BASE, "readinessChecks": checks}], observed={"r": SEEN})
    assert _messages(answer) == [
        (
            'WARNING cannot check readiness of composed resource "r": '
            f"cannot run readiness check at index 1: {why}"
        )
    ]
    assert "ready" not in answer["desired"]["resources"]["r"]


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        "text",
        {"conditions": {}},
        {"conditions": [{"type": "Ready", "status": True}]},
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"conditions": ["x", {"type": "Ready", "status": "True"}]},
        {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "today"}]},
        {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1.5}]},
    ],
)
def test_malformed_status_is_not_ready(status: Any, run: Run) -> None:
    seen = {"resource": {**SEEN["resource"], "status": status}}
    assert "ready" not in run(observed={"r": seen})["desired"]["resources"]["r"]


def test_complete_status_is_ready(run: Run) -> None:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Available",
        "message": "",
        "lastTransitionTime": "2024-02-29T13:04:05+01:00",
        "observedGeneration": 3,
    }
    seen = {"resource": {**SEEN["resource"], "status": {"conditions": [None, condition]}}}
    assert run(observed={"r": seen})["desired"]["resources"]["r"]["ready"] == "READY_TRUE"


# Connection details

DETAILS = [
    {"type": "FromValue", "name": "port", "value": "80"},
    {"type": "FromConnectionSecretKey", "name": "user", "fromConnectionSecretKey": "user"},
    {"type": "FromConnectionSecretKey", "name": "pass", "fromConnectionSecretKey": "missing"},
    {"type": "FromFieldPath", "name": "text", "fromFieldPath": "data.v"},
    {"type": "FromFieldPath", "name": "json", "fromFieldPath": "data.obj"},
    {"type": "FromFieldPath", "name": "none", "fromFieldPath": "data.missing"},
    {"type": "FromFieldPath", "name": "bad", "fromFieldPath": "data..x"},
]
FOUND = {
    "port": "ODA=",
    "user": "YWRtaW4=",
    "text": "b3Y=",
    "json": base64.b64encode(b'{"a":1}').decode(),
}


def _modern(**spec: Any) -> dict[str, Any]:
    return {**COMPOSITE, "spec": {**COMPOSITE["spec"], "crossplane": {}, **spec}}


def test_connection_details_are_extracted_from_observed_resources(run: Run) -> None:
    resource = {"name": "r", "base": BASE, "connectionDetails": DETAILS}
    seen = run([resource], observed={"r": SEEN})
    assert seen["desired"]["composite"]["connectionDetails"] == FOUND
    assert list(seen["desired"]["resources"]) == ["r"]
    assert "connectionDetails" not in run([resource])["desired"]["composite"]


@pytest.mark.parametrize(
    ("spec", "reference", "metadata"),
    [
        pytest.param({}, {}, {"name": "x-connection", "namespace": "ns"}, id="by default"),
        pytest.param({}, {"name": "n"}, {"name": "n"}, id="by the input alone"),
        pytest.param(
            {"writeConnectionSecretToRef": {"name": "own", "namespace": "o"}},
            {"name": "n"},
            {"name": "own", "namespace": "o"},
            id="by the composite resource first",
        ),
        pytest.param(
            {},
            {"patches": [{"fromFieldPath": "spec.region", "toFieldPath": "name"}]},
            {"name": "eu", "namespace": "ns"},
            id="patched",
        ),
        pytest.param(
            {},
            {
                "patches": [
                    _combine("CombineFromComposite", "%s-s", "spec.region")
                    | {"toFieldPath": "namespace"}
                ]
            },
            {"name": "x-connection", "namespace": "eu-s"},
            id="combined",
        ),
        pytest.param(
            {},
            {"patches": [{"fromFieldPath": "spec.region.deep", "toFieldPath": "name"}]},
            {"name": "x-connection", "namespace": "ns"},
            id="what cannot be patched is skipped",
        ),
        pytest.param(
            {},
            {"patches": [{"fromFieldPath": "spec.size", "toFieldPath": "name"}]},
            {"name": "x-connection", "namespace": "ns"},
            id="a name is a text",
        ),
    ],
)
def test_modern_composite_resource_has_a_secret(
    spec: dict[str, Any], reference: dict[str, Any], metadata: dict[str, str], run: Run
) -> None:
    answer = run(
        [{"name": "r", "base": BASE, "connectionDetails": DETAILS}],
        composite=_modern(**spec),
        observed={"r": SEEN},
        writeConnectionSecretToRef=reference,
    )
    assert answer["desired"]["resources"]["x-connection-secret"] == {
        "ready": "READY_TRUE",
        "resource": {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "type": "connection.crossplane.io/v1alpha1",
            "data": FOUND,
        },
    }


def test_modern_composite_resource_without_details_has_no_secret(run: Run) -> None:
    assert list(run(composite=_modern())["desired"]["resources"]) == ["r"]


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (
            {"type": "ToCompositeFieldPath", "fromFieldPath": "a"},
            "unsupported patch type ToCompositeFieldPath at index 0",
        ),
        (
            {
                "fromFieldPath": "spec.missing",
                "toFieldPath": "name",
                "policy": {"fromFieldPath": "Required"},
            },
            (
                "cannot apply patch type FromCompositeFieldPath at index 0: "
                "spec.missing: no such field"
            ),
        ),
        (
            _combine("CombineFromComposite", "%s", "spec.missing"),
            "cannot apply patch type CombineFromComposite at index 0: spec.missing: no such field",
        ),
    ],
)
def test_secret_without_valid_name_is_fatal(patch: dict[str, Any], why: str, run: Run) -> None:
    answer = run(
        [{"name": "r", "base": BASE, "connectionDetails": DETAILS}],
        composite=_modern(),
        observed={"r": SEEN},
        writeConnectionSecretToRef={"patches": [patch]},
    )
    assert _messages(answer)[0].endswith(f"cannot apply connection secret patches: {why}")
    assert answer["desired"] == {}


# Inputs


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "resources: Required value: resources or environment patches are required"),
        ({"resources": [{"base": BASE}]}, "resources[0].name: Required value: name is required"),
        ({"patchSets": [{"patches": []}]}, "name: Required value: name is required"),
        (
            {"patchSets": [{"name": "s", "patches": [{"type": "PatchSet"}]}]},
            (
                'patches[0].type: Invalid value: "PatchSet": patch type *v1beta1.PatchSetPatch '
                "does not support patch of type PatchSet"
            ),
        ),
        (
            {"resources": [{"name": "r", "patches": [{"type": "PatchSet"}]}]},
            (
                "resources[0].patches[0].patchSetName: Required value: patchSetName must be set "
                "for patch type PatchSet"
            ),
        ),
        (
            {"resources": [{"name": "r", "patches": [{"type": "Nope"}]}]},
            'resources[0].patches[0].type: Invalid value: "Nope": unknown patch type',
        ),
        (
            {"resources": [{"name": "r", "patches": [{}]}]},
            (
                "resources[0].patches[0].fromFieldPath: Required value: fromFieldPath must be set "
                "for patch type FromCompositeFieldPath"
            ),
        ),
        (
            {
                "resources": [
                    {
                        "name": "r",
                        "patches": [{"fromFieldPath": "a", "policy": {"fromFieldPath": "Maybe"}}],
                    }
                ]
            },
            (
                'resources[0].patches[0].policy.fromFieldPathPolicy: Invalid value: "Maybe": '
                "unknown fromFieldPathPolicy"
            ),
        ),
        (
            {"resources": [{"name": "r", "patches": [{"type": "CombineToComposite"}]}]},
            (
                "resources[0].patches[0].combine: Required value: combine must be set for patch "
                "type CombineToComposite"
            ),
        ),
        (
            {
                "resources": [
                    {
                        "name": "r",
                        "patches": [
                            {
                                "type": "CombineFromComposite",
                                "toFieldPath": "a",
                                "combine": {"strategy": "list"},
                            }
                        ],
                    }
                ]
            },
            (
                'resources[0].patches[0].combine.strategy: Invalid value: "list": unknown strategy '
                "type"
            ),
        ),
        (
            {"resources": [{"name": "r", "patches": [_combine("CombineFromComposite", "%s", "")]}]},
            (
                "resources[0].patches[0].combine.variables[0].fromFieldPath: Required value: "
                "fromFieldPath must be set for each combine variable"
            ),
        ),
        (
            {"environment": {"patches": [{"type": "CombineFromEnvironment"}]}},
            (
                'environment.patches[0][type]: Invalid value: "CombineFromEnvironment": invalid '
                "environment patch type"
            ),
        ),
        (
            {"resources": [{"name": "r", "connectionDetails": [{"name": "a"}]}]},
            (
                "resources[0].connectionDetails[0].type: Required value: connection detail type is "
                "required"
            ),
        ),
        (
            {"resources": [{"name": "r", "connectionDetails": [{"type": "FromFieldPath"}]}]},
            "resources[0].connectionDetails[0].name: Required value: name is required",
        ),
        (
            {"resources": [{"name": "r", "readinessChecks": [{"type": "MatchTrue"}]}]},
            "resources[0].readinessChecks[0].fieldPath: Required value: cannot be empty",
        ),
        (
            {
                "resources": [
                    {
                        "name": "r",
                        "readinessChecks": [
                            {"type": "MatchCondition", "matchCondition": {"type": "Ready"}}
                        ],
                    }
                ]
            },
            (
                "resources[0].readinessChecks[0].matchCondition.status: Required value: cannot be "
                "empty for type MatchCondition"
            ),
        ),
    ],
)
def test_incomplete_input_is_rejected(given: dict[str, Any], why: str) -> None:
    answer = PatchAndTransform().run({"input": given})
    assert _messages(answer) == [f"FATAL invalid Function input: {why}"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"nope": 1}, 'the input: unknown name "nope"'),
        ({"resources": {}}, "resources must be an array"),
        ({"resources": [{"name": 1}]}, "resources[0].name must be a string"),
        (
            {"resources": [{"name": "r", "patches": [{}, {"patchset": 1}]}]},
            'resources[0].patches[1]: unknown name "patchset"',
        ),
        (
            {"environment": {"patches": [{"patchSetName": "s"}]}},
            'environment.patches[0]: unknown name "patchSetName"',
        ),
        (
            {"resources": [{"name": "r", "readinessChecks": [{"matchInteger": 1.5}]}]},
            "resources[0].readinessChecks[0].matchInteger must be a whole number",
        ),
        (
            {"resources": [{"name": "r", "readinessChecks": [{"matchInteger": True}]}]},
            "resources[0].readinessChecks[0].matchInteger must be a whole number",
        ),
        (
            {"resources": [{"name": "r", "readinessChecks": [{"matchInteger": 2**63}]}]},
            "resources[0].readinessChecks[0].matchInteger must be a whole number",
        ),
        (
            {"resources": [{"name": "r", "readinessChecks": [{"matchInteger": float("inf")}]}]},
            "resources[0].readinessChecks[0].matchInteger must be a whole number",
        ),
        ("text", "the input must be an object"),
    ],
)
def test_malformed_input_is_rejected(given: Any, why: str) -> None:
    answer = PatchAndTransform().run({"input": given})
    assert _messages(answer) == [
        (
            "FATAL cannot get Function input: cannot get function input *v1beta1.Resources from "
            "*v1.RunFunctionRequest: cannot unmarshal JSON from *structpb.Struct into "
            f"*v1beta1.Resources: json: {why}"
        )
    ]


def test_transforms_of_combined_values_are_checked_at_run_time(patched: Patched) -> None:
    def combined(*transforms: dict[str, Any], **policy: str) -> Any:
        return patched(
            _combine(
                "CombineFromComposite",
                "%s",
                "spec.region",
                transforms=list(transforms),
                policy=policy,
            )
        )

    at = 'cannot render composed resource "r" "CombineFromComposite" patch at index 0: '
    step = f"{at}transform at index 0 returned error: "
    assert combined(toFieldPath="Nope") == f"{at}invalid patch policy Nope"
    assert combined({"type": "nope"}) == f"{step}transform type nope is not supported"
    assert combined({"type": "math"}) == f"{step}given transform type math requires configuration"
    assert combined({"type": "math", "math": {}}) == (
        f"{step}math transform could not resolve: "
        "type: Required value: math transform type is required"
    )
    assert combined({"type": "string", "string": {"type": "Format"}}) == (
        f"{step}string transform could not resolve: string transform of type Format fmt is not set"
    )
    bad = {"type": "Regexp", "regexp": {"match": "("}}
    assert combined({"type": "string", "string": bad}) == (
        f"{step}string transform could not resolve: could not compile regexp: "
        "error parsing regexp: missing closing ): `(`"
    )


def test_changed_input_is_read_again(run: Run) -> None:
    patch = {"fromFieldPath": "spec.region", "toFieldPath": "out"}
    resources = [{"name": "r", "base": BASE, "patches": [patch]}]
    first = run(resources)
    patch["fromFieldPath"] = "spec.size"
    second = run(resources)
    outputs = [answer["desired"]["resources"]["r"]["resource"]["out"] for answer in (first, second)]
    assert outputs == ["eu", 20]


def test_inputs_that_differ_in_types_are_different(patched: Patched) -> None:
    def mapped(result: Any) -> Any:
        transform = {"type": "map", "map": {"eu": result}}
        return patched(
            {"fromFieldPath": "spec.region", "toFieldPath": "out", "transforms": [transform]}
        )

    assert [repr(mapped(value)) for value in (1, True, "1", 1.5)] == ["1", "True", "'1'", "1.5"]


def test_responses_share_no_state(run: Run) -> None:
    resources = [{"name": "r", "base": {**BASE, "data": {"list": [1]}}}]
    first = run(resources)
    first["desired"]["resources"]["r"]["resource"]["data"]["list"].append(2)
    second = run(resources)
    assert second["desired"]["resources"]["r"]["resource"]["data"]["list"] == [1]


# Hostile requests


def test_empty_request_has_a_response() -> None:
    assert PatchAndTransform().run({})["results"][0]["severity"] == "SEVERITY_FATAL"
    answer = PatchAndTransform().run({"input": {"resources": [{"name": "r", "base": BASE}]}})
    assert answer["desired"]["composite"]["resource"] == {"apiVersion": "", "kind": ""}


def test_too_deeply_nested_request_is_fatal(run: Run) -> None:
    deep: Any = "end"
    for _ in range(sys.getrecursionlimit() * 2):
        deep = {"a": deep}
    answer = PatchAndTransform().run(
        {
            "observed": {"composite": {"resource": {**COMPOSITE, "deep": deep}}},
            "input": {
                "resources": [
                    {
                        "name": "r",
                        "base": BASE,
                        "patches": [{"fromFieldPath": "deep", "toFieldPath": "out"}],
                    }
                ]
            },
        }
    )
    assert _messages(answer) == ["FATAL the request is nested too deeply"]


def test_too_deeply_nested_base_is_fatal() -> None:
    deep: Any = "end"
    for _ in range(sys.getrecursionlimit() * 2):
        deep = [deep]
    answer = PatchAndTransform().run(
        {"input": {"resources": [{"name": "r", "base": {**BASE, "deep": deep}}]}}
    )
    assert _messages(answer) == ["FATAL the request is nested too deeply"]
