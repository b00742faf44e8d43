"""Functions with requirements: fetched resources, and final responses."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.model import AllowedResource, Step
from kanister_py.core.kube.selectors import parse_label_selector
from kanister_py.executor.run_pipeline import PipelineStepRefused
from tests.executor.stage import Stage, config_map, passes

HERE = config_map(name="here", namespace="n", labels={"env": "dev"})
THERE = config_map(name="there", namespace="m", labels={"env": "dev"})


def asks(**maps: Any) -> Any:
    return lambda request: passes(request, requirements=maps)


def by_name(name: str, **more: Any) -> Data:
    return {"apiVersion": "v1", "kind": "ConfigMap", "matchName": name, **more}


def by_labels(**labels: str) -> Data:
    return {"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"labels": labels}}


def got(stage: Stage, key: str = "requiredResources") -> Any:
    return stage.runner.calls[-1].request.as_data().get(key)


def names(resources: Data) -> list[str]:
    return [item["resource"]["metadata"]["name"] for item in resources.get("items", [])]


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param(by_name("here", namespace="n"), ["here"], id="by name"),
        pytest.param(by_name("here", namespace="m"), [], id="in another namespace"),
        pytest.param(by_name("here"), [], id="by name without a namespace"),
        pytest.param(by_labels(env="dev"), ["there", "here"], id="by labels, in order of place"),
        pytest.param(
            {**by_labels(env="dev"), "namespace": "n"}, ["here"], id="labels, one namespace"
        ),
        pytest.param(by_labels(env="prod"), [], id="no such label"),
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap"}, ["there", "here"], id="all of a kind"
        ),
        pytest.param({"apiVersion": "v2", "kind": "ConfigMap"}, [], id="another version"),
    ],
)
def test_a_function_gets_the_required_resources(selector: Data, want: list[str]) -> None:
    stage = Stage({"a": asks(resources={"r": selector})}, objects=[HERE, THERE])
    assert stage.compose(*stage.steps("a")).error is None
    assert names(got(stage)["r"]) == want
    assert len(stage.runner.calls) == 2


def test_a_missing_resource_is_an_empty_message() -> None:
    stage = Stage({"a": asks(resources={"r": by_name("x")})})
    stage.compose(*stage.steps("a"))
    assert got(stage) == {"r": {}}


def test_a_function_without_requirements_gets_no_map() -> None:
    stage = Stage({"a": asks(resources={}), "b": passes})
    stage.compose(*stage.steps("a", "b"))
    assert len(stage.runner.calls) == 2
    for call in stage.runner.calls:
        data = call.request.as_data()
        assert not {"requiredResources", "extraResources", "requiredSchemas"} & set(data)


def test_extra_resources_are_answered_in_the_deprecated_field() -> None:
    stage = Stage({"a": asks(extraResources={"r": by_name("here", namespace="n")})}, objects=[HERE])
    stage.compose(*stage.steps("a"))
    assert names(got(stage, "extraResources")["r"]) == ["here"]
    assert got(stage) is None


def test_required_schemas_are_fetched() -> None:
    stage = Stage({"a": asks(schemas={"s": {"apiVersion": "v1", "kind": "Nobody"}})})
    stage.compose(*stage.steps("a"))
    assert got(stage, "requiredSchemas") == {"s": {}}


def test_required_resources_reach_only_their_step() -> None:
    stage = Stage({"a": asks(resources={"r": by_name("x")}), "b": passes})
    stage.compose(*stage.steps("a", "b"))
    assert got(stage) is None


def test_resources_required_by_the_composition_stay_in_later_rounds() -> None:
    stage = Stage({"a": asks(resources={"r": by_name("x")})}, objects=[HERE])
    boot = {"boot": by_name("here", namespace="n")}
    stage.compose(Step("a", "a", required_resources=boot))
    first, second = (call.request.required_resources for call in stage.runner.calls)
    assert first is not None
    assert second is not None
    assert list(first) == ["boot"]
    assert sorted(second) == ["boot", "r"]


def test_requirements_that_are_already_met_need_no_second_call() -> None:
    selector = by_name("here", namespace="n")
    stage = Stage({"a": asks(resources={"boot": selector})}, objects=[HERE])
    stage.compose(Step("a", "a", required_resources={"boot": selector}))
    assert len(stage.runner.calls) == 1


def test_only_the_context_is_passed_from_round_to_round() -> None:
    def counts(request: Data) -> Data:
        seen = request["context"].get("n", 0)
        requirements = (
            {"resources": {"r": by_name("x")}} if seen < 2 else {"resources": {"q": by_name("x")}}
        )
        desired = {"resources": {f"r{seen}": {"resource": config_map()}}}
        assert request["desired"] == {}
        results = [{"severity": "SEVERITY_NORMAL", "message": str(seen)}]
        return {
            "context": {"n": seen + 1},
            "requirements": requirements,
            "desired": desired,
            "results": results,
        }

    stage = Stage({"a": counts})
    composed = stage.compose(*stage.steps("a"))
    assert composed.context == {"n": 2}
    assert [resource.name for resource in composed.resources] == ["r1"]
    assert len(composed.events) == 1


def test_a_fatal_response_ends_the_rounds() -> None:
    def fails(request: Data) -> Data:
        fatal = [{"severity": "SEVERITY_FATAL", "message": "no"}]
        return passes(request, requirements={"resources": {"r": by_name("x")}}, results=fatal)

    stage = Stage({"a": fails})
    stage.compose(*stage.steps("a"))
    assert len(stage.runner.calls) == 1


@pytest.mark.parametrize(("most", "calls"), [(0, 1), (1, 2), (5, 6), (9, 10)])
def test_a_step_may_limit_the_rounds(most: int, calls: int) -> None:
    def restless(request: Data) -> Data:
        requirements = by_name(str(len(stage.runner.calls)))
        return passes(request, requirements={"resources": {"r": requirements}})

    stage = Stage({"a": restless})
    error = stage.compose(Step("a", "a", max_iterations=most)).error
    assert isinstance(error, PipelineStepRefused)
    assert error.cause.reason == "RequirementsUnsettled"
    assert f"number of iterations ({most})" in error.message
    assert len(stage.runner.calls) == calls


def rule_of(selector: str) -> AllowedResource:
    return AllowedResource("v1", "ConfigMap", selector=parse_label_selector(selector))


class TestAllowedResources:
    @pytest.mark.parametrize(
        ("rule", "selector", "is_allowed"),
        [
            pytest.param(AllowedResource("v1", "ConfigMap"), by_name("x"), True, id="all of it"),
            pytest.param(AllowedResource("v1", "Pod"), by_name("x"), False, id="another kind"),
            pytest.param(
                AllowedResource("v1", "ConfigMap", "app-.*"), by_name("app-1"), True, id="a name"
            ),
            pytest.param(
                AllowedResource("v1", "ConfigMap", "app"),
                by_name("app-1"),
                False,
                id="the whole name must match",
            ),
            pytest.param(
                AllowedResource("v1", "ConfigMap", "app-.*"), by_labels(a="b"), False, id="no name"
            ),
            pytest.param(
                AllowedResource("v1", "ConfigMap", namespace="team-.*"),
                {**by_name("x"), "namespace": "team-a"},
                True,
                id="a namespace",
            ),
            pytest.param(
                AllowedResource("v1", "ConfigMap", namespace="team-.*"),
                {**by_name("x"), "namespace": "kube-system"},
                False,
                id="another namespace",
            ),
            pytest.param(
                AllowedResource("v1", "ConfigMap", namespace="team-.*"),
                by_name("x"),
                False,
                id="all namespaces are more than one",
            ),
            pytest.param(
                AllowedResource("v1", "ConfigMap", None, {"env": "dev|qa"}),
                by_labels(env="qa", more="x"),
                True,
                id="a label",
            ),
            pytest.param(
                AllowedResource("v1", "ConfigMap", None, {"env": "dev|qa"}),
                by_labels(env="prod"),
                False,
                id="another value",
            ),
            pytest.param(
                AllowedResource("v1", "ConfigMap", None, {"env": ".*"}),
                by_name("x"),
                False,
                id="no label",
            ),
            pytest.param(
                AllowedResource(
                    "v1", "ConfigMap", selector=parse_label_selector("env in (dev,qa)")
                ),
                by_labels(env="qa", more="x"),
                True,
                id="a value of several",
            ),
            pytest.param(
                AllowedResource(
                    "v1", "ConfigMap", selector=parse_label_selector("env in (dev,qa)")
                ),
                by_labels(env="prod"),
                False,
                id="a value that is none of them",
            ),
            pytest.param(
                AllowedResource(
                    "v1", "ConfigMap", selector=parse_label_selector("env notin (prod)")
                ),
                by_labels(env="qa"),
                True,
                id="a value that is not kept out",
            ),
            pytest.param(
                AllowedResource(
                    "v1", "ConfigMap", selector=parse_label_selector("env notin (prod)")
                ),
                by_labels(more="x"),
                False,
                id="a request that could find excluded resources",
            ),
            pytest.param(
                rule_of("env"),
                by_labels(env="prod"),
                True,
                id="a label of any value",
            ),
            pytest.param(
                rule_of("env"),
                by_name("x"),
                False,
                id="a name promises no label",
            ),
        ],
    )
    def test_only_listed_resources_are_allowed(
        self, rule: AllowedResource, selector: Data, is_allowed: bool
    ) -> None:
        stage = Stage({"a": asks(resources={"r": selector})})
        error = stage.compose(Step("a", "a", allowed=(rule,))).error
        assert (error is None) is is_allowed
        if error is not None:
            assert "it may not require ConfigMap of v1" in error.message
            assert "(function a, revision a-1)" in error.message
