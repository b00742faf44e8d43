from __future__ import annotations

import copy
from typing import Any

import pytest

from kanister_py.functions.composition.answering import ENVIRONMENT_KEY
from kanister_py.functions.composition.go_templating.v0_1_0 import GoTemplating

XR: dict[str, Any] = {
    "apiVersion": "example.org/v1",
    "kind": "XBucket",
    "metadata": {"name": "x"},
    "spec": {"region": "eu", "size": 20, "ratio": 0.5},
}
SEEN: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "status": {
        "count": 3,
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-02T03:04:05Z"}
        ],
    },
}
HEAD = """\
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    gotemplating.fn.crossplane.io/composition-resource-name: r
"""
META = "apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1\nkind: "


def asked(template: str, given: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "meta": {"tag": "t"},
        "observed": {
            "composite": {"resource": XR},
            "resources": {"r": {"resource": SEEN, "connectionDetails": {"key": "cEBzcw=="}}},
        },
        "desired": {},
        "input": {
            "apiVersion": "gotemplating.fn.crossplane.io/v1beta1",
            "kind": "GoTemplate",
            "source": "Inline",
            "inline": {"template": template},
            **(given or {}),
        },
        **more,
    }


def answered(template: str, given: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    request = asked(template, given, **more)
    GoTemplating.described_input().model_validate(request["input"])
    before = copy.deepcopy(request)
    answer = dict(GoTemplating().run(request))
    assert request == before, "a function leaves its request alone"
    return answer


def fatal(template: str, given: dict[str, Any] | None = None, **more: Any) -> str:
    answer = GoTemplating().run(asked(template, given, **more))
    (result,) = answer["results"]
    assert result["severity"] == "SEVERITY_FATAL"
    assert answer["desired"] == more.get("desired", {}), "nothing is desired of a step that failed"
    return str(result["message"])


EXPRESSIONS = {
    ".observed.composite.resource.spec.size": 20,
    "kindOf .observed.composite.resource.spec.size": "int64",
    "kindOf .observed.composite.resource.spec.ratio": "float64",
    ".observed.composite.resource.spec.nope | quote": None,
    '.observed.composite.resource.spec.nope | default "d"': "d",
    ".meta.tag": "t",
    '(getComposedResource . "r").status.count': 3,
    'kindOf (getComposedResource . "r").status.count': "float64",
    '(getComposedResource . "nope").status | quote': None,
    "(getCompositeResource .).spec.region": "eu",
    '(getComposedResource . "r" | getResourceCondition "Ready").Status': True,
    'index .observed.resources "r" | getResourceCondition "Ready" | toJson | squote': (
        '{"type":"Ready","status":"True","lastTransitionTime":"2024-01-02T03:04:05Z","reason":""}'
    ),
    '(getComposedResource . "nope" | getResourceCondition "Ready").Status': "Unknown",
    '(getComposedConnectionDetails . "r").key | toString': "p@ss",
    '(getCredentialData . "c").password | toString': "secret",
    '(getCredentialData . "nope").password | toString | quote': "<nil>",
    '(index (getExtraResources . "a") 0).resource.kind': "Secret",
    'len (getExtraResources . "b")': 0,
    '(index (getExtraResourcesFromContext . "f") 0).resource.kind': "Pod",
    'setResourceNameAnnotation "n" | quote': (
        "gotemplating.fn.crossplane.io/composition-resource-name: n"
    ),
    'randomChoice "a"': "a",
    'randomChoice "a" "b" | len': 1,
    'include "greet" "you" | quote': "hello you",
    '("a: [1, yes, 1.5]" | fromYaml).a | toJson | squote': '[1,"yes",1.5]',
    'dict "a" (list 1 "x") | toYaml | quote': "a:\n    - 1\n    - x\n",
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_template_functions_read_the_request(expression: str) -> None:
    define = '{{ define "greet" }}hello {{ . }}{{ end }}'
    answer = answered(
        f"{define}{HEAD}data:\n  v: {{{{ {expression} }}}}\n",
        context={
            "apiextensions.crossplane.io/extra-resources": {
                "f": {"items": [{"resource": {"kind": "Pod"}}]}
            }
        },
        credentials={"c": {"credentialData": {"data": {"password": "c2VjcmV0"}}}},
        requiredResources={"a": {"items": [{"resource": {"kind": "Secret"}}]}},
    )
    assert answer.get("results") is None
    resource = answer["desired"]["resources"]["r"]["resource"]
    assert resource["metadata"] == {"annotations": {}}
    assert resource["data"]["v"] == EXPRESSIONS[expression]


FATAL = {
    "{{ .a": "invalid function input: cannot parse the provided templates: "
    "template: manifests:1: unclosed action",
    '{{ env "HOME" }}': "invalid function input: cannot parse the provided templates: "
    'template: manifests:1: function "env" not defined',
    '{{ fail "boom" }}': "cannot execute template: template: manifests:1:3: executing "
    '"manifests" at <fail "boom">: error calling fail: boom',
    '{{ include "nope" . }}': "cannot execute template: template: manifests:1:3: executing "
    '"manifests" at <include "nope" .>: error calling include: template: no template "nope" '
    'associated with template "manifests"',
    "kind: A\napiVersion: v1\n": '"A" template is missing required '
    '"gotemplating.fn.crossplane.io/composition-resource-name" annotation',
    HEAD + "    other: 5\n": "invalid annotations in resource '/v1, Kind=ConfigMap "
    "resource-name=r': .metadata.annotations accessor error: contains non-string value in the "
    'map under key "other": 5 is of the type int64, expected string',
    HEAD + "    gotemplating.fn.crossplane.io/ready: maybe\n": "invalid function input: invalid "
    '"gotemplating.fn.crossplane.io/ready" annotation value "maybe": must be True, False, or '
    "Unspecified",
    META + "Bogus\n": 'invalid kind "Bogus" for apiVersion '
    '"meta.gotemplating.fn.crossplane.io/v1alpha1" - must be one of CompositeConnectionDetails, '
    "Context or ExtraResources",
    META + "ExtraResources\n": "cannot get extra resources requirements: requirements: no such "
    "field",
    META + "Context\n": "cannot get Contexts from input: data: no such field",
    META + "ClaimConditions\nconditions: [{type: Ready}]\n": "cannot set ClaimCondition type: "
    "Ready is a reserved Crossplane Condition",
    (META + "ExtraResources\nrequirements: {a: {apiVersion: v1, kind: P, matchName: x}}\n---\n")
    * 2: 'duplicate extra resource key "a"',
}


@pytest.mark.parametrize("template", FATAL)
def test_template_errors_have_the_originals_messages(template: str) -> None:
    kept = {"resources": {"z": {"resource": {"kind": "Kept"}}}}
    assert fatal(template, desired=kept) == FATAL[template]


def test_unknown_field_of_the_input_is_named() -> None:
    message = fatal(HEAD, {"inlines": {}})
    assert message.startswith("cannot get Function input from *v1.RunFunctionRequest: ")
    assert message.endswith('the input: unknown name "inlines"')


@pytest.mark.parametrize(
    ("option", "want"), [("error", None), ("zero", "<no value>"), ("default", "<no value>")]
)
def test_missing_keys_follow_the_options(option: str, want: str | None) -> None:
    answer = answered(
        HEAD + "data: {v: '{{ .observed.composite.resource.spec.zz }}'}\n",
        {"options": [f"missingkey={option}"]},
    )
    if want is None:
        assert 'map has no entry for key "zz"' in answer["results"][0]["message"]
    else:
        assert answer["desired"]["resources"]["r"]["resource"]["data"] == {"v": want}


def test_unknown_option_is_rejected() -> None:
    assert fatal(HEAD, {"options": ["a=b"]}) == "invalid function input: unrecognized option: a=b"


def test_custom_delimiters_disable_the_default_ones() -> None:
    template = HEAD + "data: {v: '{{ raw }} [[ \"]]\" ]] [[/* {{ ]] */]][[ `[[` ]]'}\n"
    answer = answered(template, {"delims": {"left": "[[", "right": "]]"}})
    want = {"v": "{{ raw }} ]] [["}
    assert answer["desired"]["resources"]["r"]["resource"]["data"] == want


def test_error_with_custom_delimiters_has_its_line() -> None:
    message = fatal("a\n b [[ fail `x` ]]", {"delims": {"left": "[[", "right": "]]"}})
    assert "template: manifests:2:6:" in message


def test_readiness_annotation_is_removed() -> None:
    answer = answered(HEAD + '    gotemplating.fn.crossplane.io/ready: "True"\n')
    composed = answer["desired"]["resources"]["r"]
    assert composed["ready"] == "READY_TRUE"
    assert composed["resource"]["metadata"]["annotations"] == {}


def test_only_the_status_of_the_composite_resource_is_set() -> None:
    answer = answered(
        "apiVersion: example.org/v1\nkind: XBucket\nspec: {region: us}\n"
        "metadata: {annotations: {gotemplating.fn.crossplane.io/ready: 'False'}}\n"
        "status: {a: {b: 1}, m: null, l: [2]}\n",
        desired={"composite": {"resource": {"status": {"a": {"c": 2}, "l": [1], "k": 0}}}},
    )
    assert answer["desired"]["composite"] == {
        "resource": {"status": {"a": {"b": 1, "c": 2}, "l": [2], "k": 0, "m": None}},
        "ready": "READY_FALSE",
    }


def test_named_nested_composite_resource_is_composed() -> None:
    template = HEAD.replace("v1", "example.org/v1").replace("ConfigMap", "XBucket")
    assert answered(template)["desired"]["resources"]["r"]["resource"]["kind"] == "XBucket"


def test_connection_details_are_added() -> None:
    answer = answered(
        META + "CompositeConnectionDetails\ndata: {a: YQ==, bad: '%%', part: YWRtaW4=%%}\n",
        desired={"composite": {"connectionDetails": {"z": "eg=="}}},
    )
    want = {"z": "eg==", "a": "YQ==", "bad": "", "part": "YWRtaW4="}
    assert answer["desired"]["composite"]["connectionDetails"] == want


def test_conditions_have_their_targets() -> None:
    answer = answered(
        META + "ClaimConditions\nconditions:\n"
        "- {type: A, status: 'True', reason: R, message: m, target: CompositeAndClaim}\n"
        "- {type: B, status: Perhaps, reason: S}\n"
    )
    assert answer["conditions"] == [
        {
            "type": "A",
            "status": "STATUS_CONDITION_TRUE",
            "reason": "R",
            "message": "m",
            "target": "TARGET_COMPOSITE_AND_CLAIM",
        },
        {
            "type": "B",
            "status": "STATUS_CONDITION_UNKNOWN",
            "reason": "S",
            "target": "TARGET_COMPOSITE",
        },
    ]


def test_context_is_merged_over_the_existing_one() -> None:
    answer = answered(
        META + "Context\ndata: {k: {b: 2}, new: [1]}\n", context={"k": {"a": 1}, "old": "x"}
    )
    assert answer["context"] == {"k": {"a": 1, "b": 2}, "old": "x", "new": [1]}


def test_resources_are_requested_by_name_or_by_labels() -> None:
    answer = answered(
        META + "ExtraResources\nrequirements:\n"
        "  a: {apiVersion: v1, kind: Pod, matchName: p}\n"
        "  b: {apiVersion: v1, kind: Pod, matchLabels: {x: 'yes'}}\n"
        "  c: {apiVersion: v1, kind: Pod, matchName: p, namespace: ns}\n"
    )
    pod = {"apiVersion": "v1", "kind": "Pod"}
    a = {**pod, "matchName": "p"}
    b = {**pod, "matchLabels": {"labels": {"x": "yes"}}}
    c = {**pod, "matchName": "p", "namespace": "ns"}
    assert answer["requirements"] == {
        "resources": {"a": a, "b": b, "c": c},
        "extraResources": {"a": a, "b": b},
    }


@pytest.mark.parametrize("key", ["requiredResources", "extraResources"])
def test_fetched_resources_are_added_to_the_context(key: str) -> None:
    extra_resources = {"a": {"items": [{"resource": {"kind": "Pod"}}]}}
    answer = answered(
        HEAD + 'data: {v: {{ (index (getExtraResources . "a") 0).resource.kind }} }\n',
        **{key: extra_resources},
    )
    assert answer["context"] == {"apiextensions.crossplane.io/extra-resources": extra_resources}
    assert answer["desired"]["resources"]["r"]["resource"]["data"] == {"v": "Pod"}


@pytest.mark.parametrize(
    ("given", "annotation", "want"),
    [
        ({}, None, "60s"),
        ({"ttl": "5m"}, None, "300s"),
        ({"ttl": "soon"}, None, "60s"),
        ({"ttl": "5m"}, "1.5s", "1.500s"),
        ({"ttl": "5m"}, "soon", "300s"),
    ],
)
def test_ttl_of_input_and_annotation(
    given: dict[str, Any], annotation: str | None, want: str
) -> None:
    request = asked(HEAD, given)
    if annotation is not None:
        metadata = {"annotations": {"gotemplating.fn.crossplane.io/ttl": annotation}}
        request["observed"] = {"composite": {"resource": {**XR, "metadata": metadata}}}
    assert GoTemplating().run(request)["meta"] == {"tag": "t", "ttl": want}


def test_template_from_the_environment() -> None:
    answer = answered(
        "",
        {"source": "Environment", "environment": {"key": "tpl"}},
        context={ENVIRONMENT_KEY: {"tpl": HEAD}},
    )
    assert list(answer["desired"]["resources"]) == ["r"]


BOMBS = {
    "loops": "{{ range until 10000 }}{{ range until 10000 }}x{{ end }}{{ end }}",
    "a text that grows": '{{ $s := "x" }}{{ range until 100 }}{{ $s = print $s $s }}{{ end }}',
    "a definition that includes itself": '{{ define "a" }}{{ include "a" . }}{{ end }}'
    '{{ include "a" . }}',
    "includes that double": '{{ define "a" }}xxxxxxxxxxxxxxxx{{ end }}'
    '{{ range until 1000 }}{{ range until 999 }}{{ include "a" . }}{{ end }}{{ end }}',
    "YAML that grows": "{{ $l := list 1 }}{{ range until 40 }}{{ $l = list $l $l }}{{ end }}"
    "{{ toYaml $l }}",
}


@pytest.mark.parametrize(
    "template",
    [
        # Ten seconds of processor time until the limit ends it.
        pytest.param(text, id=name, marks=[pytest.mark.long] if name == "loops" else [])
        for name, text in BOMBS.items()
    ],
)
def test_endless_template_is_stopped(template: str) -> None:
    assert "The template was stopped" in fatal(template) or "nested deeper" in fatal(template)


def test_yaml_bomb_in_the_output_is_rejected() -> None:
    layers = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    message = fatal(f"{HEAD}a0: &a0 [x]\n{layers}")
    assert "aliases included" in message


def test_yaml_bomb_in_the_request_is_rejected() -> None:
    layers = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\\n" for n in range(1, 9))
    assert "The template was stopped" in fatal('{{ fromYaml "a0: &a0 [x]\\n' + layers + '" }}')
    assert "nested deeper" in fatal('{{ fromYaml (repeat 5000 "[") }}')
