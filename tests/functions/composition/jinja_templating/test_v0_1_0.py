from __future__ import annotations

import copy
from typing import Any

import pytest

from kanister_py.functions.composition.jinja_templating.v0_1_0 import JinjaTemplating

GROUP = "jinjatemplating.fn.kanister-py.io"
HEAD = f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    {GROUP}/composition-resource-name: r
"""


def answered(template: str, **more: Any) -> dict[str, Any]:
    request: dict[str, Any] = {
        "meta": {"tag": "t"},
        "observed": {
            "composite": {
                "resource": {
                    "apiVersion": "example.org/v1",
                    "kind": "XBucket",
                    "spec": {"region": "eu", "sizes": [1, 2]},
                }
            }
        },
        "desired": {},
        "input": {"source": "Inline", "inline": {"template": template}},
        **more,
    }
    JinjaTemplating.described_input().model_validate(request["input"])
    before = copy.deepcopy(request)
    answer = dict(JinjaTemplating().run(request))
    assert request == before, "a function leaves its request alone"
    return answer


def fatal(template: str, **more: Any) -> str:
    (result,) = answered(template, **more)["results"]
    assert result["severity"] == "SEVERITY_FATAL"
    return str(result["message"])


def test_resources_are_composed_in_a_loop() -> None:
    answer = answered(
        "{% for size in observed.composite.resource.spec.sizes %}---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n"
        f"    {GROUP}/composition-resource-name: r{{{{ size }}}}\n"
        f"    {GROUP}/ready: 'True'\n"
        "data:\n  region: {{ observed.composite.resource.spec.region }}\n{% endfor %}"
    )
    assert answer["desired"]["resources"] == {
        f"r{size}": {
            "resource": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"annotations": {}},
                "data": {"region": "eu"},
            },
            "ready": "READY_TRUE",
        }
        for size in (1, 2)
    }


@pytest.mark.parametrize("key", ["requiredResources", "extraResources"])
def test_fetched_resources_have_both_names(key: str) -> None:
    extra_resources = {"a": {"items": [{"resource": {"kind": "Pod"}}]}}
    template = HEAD + (
        "data:\n  n: {{ requiredResources.a['items'][0].resource.kind }}"
        "{{ extraResources.a['items'][0].resource.kind }}\n"
    )
    answer = answered(template.replace("n:", "m:"), **{key: extra_resources})
    assert answer["desired"]["resources"]["r"]["resource"]["data"] == {"m": "PodPod"}


def test_pipeline_kinds_have_their_own_group() -> None:
    answer = answered(f"apiVersion: meta.{GROUP}/v1alpha1\nkind: Context\ndata: {{a: 1}}\n")
    assert answer["context"] == {"a": 1}


def test_undefined_value_is_an_error_unless_tested() -> None:
    assert "cannot execute template: Line 1: " in fatal("{{ observed.composite.nope.x }}")
    ask = "{{ observed.composite.nope | default('d') }}{{ context.k is defined }}"
    answer = answered(f"{HEAD}data: {{v: '{ask}'}}\n")
    assert answer["desired"]["resources"]["r"]["resource"]["data"] == {"v": "dfalse"}


def test_invalid_template_is_rejected() -> None:
    message = fatal("a\n{% if %}")
    assert message.startswith(
        "invalid function input: cannot parse the provided templates: Line 2: "
    )


def test_manifest_without_resource_name_is_rejected() -> None:
    assert f'"{GROUP}/composition-resource-name" annotation' in fatal("kind: A\n")


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
        "{{ 'x' * 1000000000 }}",
        "{{ ().__class__.__bases__ }}",
    ],
)
def test_template_is_sandboxed_and_limited(template: str) -> None:
    assert fatal(template).startswith("cannot execute template: ")


def test_ttl_of_the_jinja_input_is_used() -> None:
    template_input = {"source": "Inline", "inline": {"template": HEAD}, "ttl": "2m"}
    assert answered("", input=template_input)["meta"] == {"tag": "t", "ttl": "120s"}


OBSERVED: dict[str, Any] = {
    "composite": {
        "resource": {
            "apiVersion": "example.org/v1",
            "kind": "XBucket",
            "metadata": {"name": "x"},
            "status": {"conditions": [{"type": "Synced", "status": "True", "reason": "Fine"}]},
        }
    },
    "resources": {
        "db.main": {
            "resource": {
                "kind": "Database",
                "spec": {"size": 3},
                "status": {"conditions": [{"type": "Ready", "status": "False"}]},
            },
            "connectionDetails": {"user": "YWRh"},
        }
    },
}
ASKED = {"items": [{"resource": {"metadata": {"name": "blue"}}}]}


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ('getCompositeResource().metadata["name"]', "x"),
        ('getComposedResource("db.main").spec.size', "3"),
        ('"there" if getComposedResource("other") else "not there"', "not there"),
        ('getResourceCondition("Synced", getCompositeResource()).reason', "Fine"),
        ('getResourceCondition("Ready", observed.resources["db.main"]).status', "False"),
        ('getResourceCondition("Other", getComposedResource("db.main")).status', "Unknown"),
        ('getResourceCondition("Ready", getComposedResource("other")).status', "Unknown"),
        ('getComposedConnectionDetails("db.main").user', "ada"),
        ('getComposedConnectionDetails("other") | length', "0"),
        ('getExtraResources("colours")[0].resource.metadata.name', "blue"),
        ('getExtraResources("nothing") | length', "0"),
        ('getExtraResourcesFromContext("shapes")[0].side', "4"),
        ('getCredentialData("login").password', "s3cret"),
        ('getCredentialData("other") | length', "0"),
    ],
)
def test_functions_read_the_request(expression: str, shown: str) -> None:
    answer = answered(
        f"{HEAD}data: {{shown: {{{{ {expression} }}}}}}",
        observed=OBSERVED,
        requiredResources={"colours": ASKED},
        context={
            "apiextensions.crossplane.io/extra-resources": {"shapes": {"items": [{"side": 4}]}}
        },
        credentials={"login": {"credentialData": {"data": {"password": "czNjcmV0"}}}},
    )
    assert "results" not in answer
    text = answer["desired"]["resources"]["r"]["resource"]["data"]["shown"]
    assert str(text) == shown


def test_resources_requested_under_the_older_name() -> None:
    answer = answered(
        f'{HEAD}data: {{shown: {{{{ getExtraResources("colours") | length }}}}}}',
        extraResources={"colours": ASKED},
    )
    assert answer["desired"]["resources"]["r"]["resource"]["data"] == {"shown": 1}


def test_function_writes_the_resource_name_annotation() -> None:
    answer = answered(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n"
        '    {{ setResourceNameAnnotation("named") }}\n'
    )
    assert list(answer["desired"]["resources"]) == ["named"]


def test_variables_of_the_template_take_precedence() -> None:
    template = f"{{% set getCompositeResource = 'mine' %}}{HEAD}data: {{a: {{{{ X }}}}}}"
    answer = answered(template.replace("X", "getCompositeResource"))
    assert answer["desired"]["resources"]["r"]["resource"]["data"] == {"a": "mine"}
