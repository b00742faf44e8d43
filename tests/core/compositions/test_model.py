"""Models of valid and invalid Compositions."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.compositions.model import AllowedResource, Credential, parse_composition
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.kube.selectors import parse_label_selector
from kanister_py.core.yaml.documents import Document
from tests.executor.stage import composition_of

STEP: dict[str, Any] = {"step": "a", "functionRef": {"name": "f"}}


def test_step_with_all_fields() -> None:
    [step] = composition_of(
        [
            {
                **STEP,
                "functionRef": {"name": "f", "version": "~1.2"},
                "functionRevisionRef": {"name": "f-1"},
                "functionRevisionSelector": {"matchLabels": {"channel": "alpha"}},
                "input": {"kind": "I", "none": None},
                "credentials": [
                    {"name": "c", "source": "Secret", "secretRef": {"namespace": "x", "name": "s"}},
                    {"name": "d", "source": "None"},
                ],
                "requirements": {
                    "requiredResources": [
                        {
                            "requirementName": "r",
                            "apiVersion": "v1",
                            "kind": "Pod",
                            "matchLabels": {"a": "b"},
                            "namespace": "x",
                        }
                    ],
                    "requiredSchemas": [
                        {"requirementName": "s", "apiVersion": "v1", "kind": "Pod"}
                    ],
                },
                "when": "true",
                "timeout": "1m30s",
                "retry": {"limit": 2, "backoff": "1s", "true": ["FunctionUnavailable"]},
                "ttl": "0s",
                "maxIterations": 9,
                "allowedExtraResources": [{"apiVersion": "v1", "kind": "Pod", "matchName": "x.*"}],
            }
        ]
    ).steps
    assert (step.revision.name, step.revision.version) == ("f-1", "~1.2")
    assert step.revision.labels == {"channel": "alpha"}
    assert step.input == {"kind": "I", "none": None}
    assert step.credentials == (Credential("c", "x", "s"), Credential("d"))
    assert step.required_resources["r"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "matchLabels": {"labels": {"a": "b"}},
        "namespace": "x",
    }
    assert step.required_schemas == {"s": {"apiVersion": "v1", "kind": "Pod"}}
    assert (step.timeout_seconds, step.ttl_seconds, step.max_iterations) == (90.0, 0.0, 9)
    assert step.retry is not None
    assert (step.retry.limit, step.retry.on) == (2, ("FunctionUnavailable",))
    assert step.allowed == (AllowedResource("v1", "Pod", "x.*"),)


def test_default_mode_is_pipeline_if_there_is_one_else_resources() -> None:
    assert composition_of([STEP]).steps[0].function == "f"
    value = {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "CompositionRevision",
        "metadata": {"name": "c"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "e/v1", "kind": "X"},
            "patchSets": [{"name": "p"}],
            "resources": [{"name": "r"}],
        },
    }
    [step] = parse_composition(Document.of(value)).steps
    assert step.function == "function-patch-and-transform"
    assert step.input is not None
    assert (step.input["patchSets"], step.input["resources"]) == ([{"name": "p"}], [{"name": "r"}])


def test_fields_of_resources_mode_are_unknown_in_a_pipeline() -> None:
    environment = {"environmentConfigs": [{"ref": {"name": "zones"}}]}
    (notice,) = composition_of([STEP], environment=environment, mode="Pipeline").notices
    assert (notice.reason, notice.facts["path"]) == ("UnknownField", "spec.environment")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"step": ""}, "step", id="no name"),
        pytest.param({"functionRef": {}}, "functionRef.name", id="no function"),
        pytest.param({"functionRef": {"name": "f", "version": "v1"}}, "version", id="no version"),
        pytest.param({"maxIterations": -1}, "maxIterations", id="endless"),
        pytest.param({"timeout": "soon"}, "timeout", id="no duration"),
        pytest.param({"ttl": "-1s"}, "ttl", id="negative"),
        pytest.param({"retry": {"limit": -1}}, "retry.limit", id="retries"),
        pytest.param({"credentials": [{"name": "c"}]}, "secretRef", id="no secret"),
        pytest.param(
            {"allowedExtraResources": [{"apiVersion": "v1", "kind": "Pod", "matchName": "("}]},
            "allowedExtraResources[0]",
            id="no regular expression",
        ),
        pytest.param(
            {
                "allowedExtraResources": [
                    {"apiVersion": "v1", "kind": "Pod", "matchName": "a", "matchLabels": {}}
                ]
            },
            "allowedExtraResources[0]",
            id="name and labels",
        ),
        pytest.param(
            {
                "allowedExtraResources": [
                    {"apiVersion": "v1", "kind": "Pod", "matchName": "a", "name": "a"}
                ]
            },
            "allowedExtraResources[0]",
            id="a name in both spellings",
        ),
        pytest.param(
            {"allowedExtraResources": [{"apiVersion": "v1", "kind": "Pod", "matchLabel": {}}]},
            "allowedExtraResources[0].matchLabel",
            id="an unknown key of a rule",
        ),
        pytest.param(
            {
                "allowedExtraResources": [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}],
                    }
                ]
            },
            "allowedExtraResources[0].matchExpressions[0]",
            id="a rule for the absence of a label",
        ),
        pytest.param(
            {
                "allowedExtraResources": [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "matchExpressions": [{"key": "a", "operator": "Exists", "value": "b"}],
                    }
                ]
            },
            "allowedExtraResources[0].matchExpressions[0].value",
            id="an unknown key of an expression",
        ),
        pytest.param(
            {"functionRevisionSelector": {"matchLabel": {"a": "b"}}},
            "functionRevisionSelector.matchLabel",
            id="an unknown key of a selector",
        ),
        pytest.param(
            {"functionRevisionSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
            "functionRevisionSelector.matchExpressions",
            id="an unknown operator",
        ),
        pytest.param({"maxIterations": 26}, "maxIterations", id="too many rounds"),
        pytest.param(
            {
                "requirements": {
                    "requiredResources": [
                        {
                            "requirementName": "r",
                            "apiVersion": "v1",
                            "kind": "Pod",
                            "name": "n",
                            "matchLabels": {"a": "b"},
                        }
                    ]
                }
            },
            "requiredResources[0]",
            id="both selectors",
        ),
    ],
)
def test_problem_is_reported_with_its_path(change: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        composition_of([{**STEP, **change}])
    assert any(
        problem.path.startswith("spec.pipeline[0]") and path in problem.path
        for problem in refused.value.problems
    )


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([], id="none"),
        pytest.param([{**STEP, "step": str(number)} for number in range(100)], id="a hundred"),
        pytest.param([STEP, STEP], id="two of one name"),
    ],
)
def test_invalid_list_of_steps_is_refused(steps: list[dict[str, Any]]) -> None:
    with pytest.raises(InvalidDocument):
        composition_of(steps)
    with pytest.raises(InvalidDocument):
        composition_of([STEP], mode="Magic")


def test_rule_for_extra_resources_is_parsed() -> None:
    rules = [
        {"apiVersion": "example.org/v1", "kind": "Something", "name": "something-.*"},
        {"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"tier": "*", "env": "dev|qa"}},
        {"apiVersion": "v1", "kind": "Pod", "namespace": "team-.*", "matchName": "*"},
        {
            "apiVersion": "v1",
            "kind": "Node",
            "matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}],
        },
    ]
    (step,) = composition_of([{**STEP, "allowedExtraResources": rules}]).steps
    assert step.allowed == (
        AllowedResource("example.org/v1", "Something", "something-.*"),
        AllowedResource("v1", "ConfigMap", None, {"tier": ".*", "env": "dev|qa"}),
        AllowedResource("v1", "Pod", ".*", None, "team-.*"),
        AllowedResource("v1", "Node", selector=parse_label_selector("zone notin (a)")),
    )


def test_a_selector_of_revisions_takes_expressions() -> None:
    selector = {
        "matchLabels": {"team": "data"},
        "matchExpressions": [{"key": "channel", "operator": "In", "values": ["alpha", "beta"]}],
    }
    (step,) = composition_of([{**STEP, "functionRevisionSelector": selector}]).steps
    assert step.revision.labels == {"team": "data"}
    assert str(step.revision.selector) == "channel in (alpha,beta)"


def test_unknown_api_version_is_refused_with_the_supported_one() -> None:
    value = {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "Composition",
        "metadata": {"name": "apps"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XApp"},
            "pipeline": [STEP],
        },
    }
    with pytest.raises(InvalidDocument) as refused:
        parse_composition(Document.of(value))
    (problem,) = refused.value.problems
    assert problem.path == "apiVersion"
    assert problem.message.startswith("Must be apiextensions.crossplane.io/v1,")


@pytest.mark.parametrize("mode", [{"mode": "Pipeline"}, {}])
def test_misspelt_pipeline_is_reported_as_missing(mode: dict[str, str]) -> None:
    value = {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "apps"},
        "spec": {
            **mode,
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XApp"},
            "pipline": [STEP],
        },
    }
    with pytest.raises(InvalidDocument) as refused:
        parse_composition(Document.of(value))
    (problem,) = refused.value.problems
    assert problem.message.endswith("; did you mean it by pipline?")


def test_document_without_a_kind_is_reported() -> None:
    with pytest.raises(InvalidDocument) as refused:
        parse_composition(Document.of({"apiVersion": "v1"}))
    assert any(
        "found a document without a kind" in problem.message for problem in refused.value.problems
    )
