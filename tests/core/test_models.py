from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

import pytest
from pydantic import AliasChoices, Field, ValidationError, model_validator

from kanister_py.core.errors import InvalidDocument
from kanister_py.core.models import (
    ApiModel,
    Choice,
    ClosedModel,
    DurationText,
    Items,
    NamedMap,
    NonEmptyText,
    TextMap,
    UnknownKey,
    problems_of,
    read_model,
    read_partly,
    refusal,
    unknown_keys,
)
from kanister_py.core.yaml.documents import Document, parse_document


class Mode(StrEnum):
    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"


class Retry(ApiModel):
    limit: int = Field(0, ge=0)
    backoff: DurationText = ""
    factor: float = Field(2.0, ge=1)
    on: Items[str] = Field((), validation_alias=AliasChoices("on", "true"))


class Rule(ClosedModel):
    kind: NonEmptyText
    match_labels: TextMap = Field({})


class Step(ApiModel):
    step: NonEmptyText
    func_version: str = ""
    mode: Choice[Mode] = Mode.PARALLEL
    is_last: bool = False
    retry: Retry | None = None
    rules: Items[Rule] = ()
    objects: NamedMap[Retry] = Field({})
    args: dict[str, Any] = Field({})

    @model_validator(mode="after")
    def _refuse_last_with_rules(self) -> Self:
        if self.is_last and self.rules:
            raise refusal("Must be empty in the last step", ("rules",))
        return self


class Pipeline(ApiModel):
    steps: Items[Step] = ()


def problems_in(text: str) -> list[str]:
    with pytest.raises(InvalidDocument) as refused:
        read_model(Pipeline, parse_document(text, "p.yaml"))
    return [str(problem) for problem in refused.value.problems]


def test_keys_are_camel_case_in_documents_and_snake_case_in_python() -> None:
    read = read_model(Step, Document.of({"step": "a", "funcVersion": "v1"}))

    assert read == Step(step="a", func_version="v1")


def test_python_names_are_unknown_keys_in_documents() -> None:
    document = Document.of({"step": "a", "func_version": "v1", "retry": {"on": []}})

    assert read_model(Step, document).func_version == ""
    assert [unknown.path for unknown in unknown_keys(Step, document.value)] == [("func_version",)]


def test_models_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Step(step="a").func_version = "v2"  # type: ignore[misc] # assignment under test


def test_part_of_a_document_is_read_with_the_path_of_the_whole() -> None:
    document = parse_document("spec:\n  steps:\n  - {step: 1}\n", "p.yaml")

    with pytest.raises(InvalidDocument) as refused:
        read_model(Step, document, ("spec", "steps", 0))

    (problem,) = refused.value.problems
    assert (problem.line, problem.path) == (3, "spec.steps[0].step")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param({"step": "a", "retry": None}, Step(step="a"), id="field"),
        pytest.param({"step": "a", "objects": {"x": None}}, Step(step="a"), id="named"),
        pytest.param(
            {"step": "a", "args": {"x": None}}, Step(step="a", args={"x": None}), id="free data"
        ),
    ],
)
def test_null_counts_as_left_out(written: dict[str, Any], expected: Step) -> None:
    assert read_model(Step, Document.of(written)) == expected


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("{step: 5}", "step: Must be text, found 5; put it in quotes if that is the value"),
        ("{step: [a]}", "step: Must be text, found a list"),
        ("{step: ''}", "step: Must be given"),
        ("{funcVersion: v1}", "step: Must be given"),
        ("null", "step: Must be given"),
        ("{step: a, isLast: 'true'}", "isLast: Must be true or false, found 'true'"),
        ("{step: a, retry: 5}", "retry: Must be a map, found 5"),
        ("{step: a, retry: {limit: '5'}}", "retry.limit: Must be a whole number, found '5'"),
        ("{step: a, retry: {limit: 1.5}}", "retry.limit: Must be a whole number, found 1.5"),
        ("{step: a, retry: {limit: true}}", "retry.limit: Must be a whole number, found true"),
        ("{step: a, retry: {limit: -1}}", "retry.limit: Must be at least 0, found -1"),
        ("{step: a, retry: {factor: x}}", "retry.factor: Must be a number, found 'x'"),
        (
            "{step: a, retry: {backoff: 5}}",
            "retry.backoff: Must be a time with its unit, found 5; write 5s",
        ),
        ("{step: a, rules: x}", "rules: Must be a list, found 'x'"),
        ("{step: a, mode: b}", "mode: Must be 'parallel' or 'sequential', found 'b'"),
        ("{step: a, args: []}", "args: Must be a map, found a list"),
        (
            "{step: a, rules: [{kind: b, matchlabels: {}}]}",
            "rules[0].matchlabels: Unknown key 'matchlabels'; did you mean matchLabels?",
        ),
        (
            "{step: a, rules: [{kind: b, zzz: {}}]}",
            "rules[0].zzz: Unknown key 'zzz'; known here: kind, matchLabels",
        ),
        (
            "{step: a, rules: [{kind: b, zzz: null}]}",
            "rules[0].zzz: Unknown key 'zzz'; known here: kind, matchLabels",
        ),
        ("{step: a, isLast: true, rules: [{kind: b}]}", "rules: Must be empty in the last step"),
    ],
)
def test_problem_has_place_path_and_message(step: str, problem: str) -> None:
    (reported,) = problems_in(f"steps:\n- {step}\n")

    assert reported.startswith("p.yaml:2:")
    assert reported.partition("steps[0]")[2].lstrip(".: ") == problem


def test_every_problem_is_reported_at_once() -> None:
    text = "steps:\n- {step: 1}\n- {step: a, retry: {limit: -1, factor: 0}}\n"

    assert [problem.partition(": ")[0] for problem in problems_in(text)] == [
        "p.yaml:2:4",
        "p.yaml:3:21",
        "p.yaml:3:32",
    ]


def test_bare_key_on_is_read_although_yaml_takes_it_for_true() -> None:
    document = parse_document("{step: a, retry: {on: [Conflict]}}")

    read = read_model(Step, document)

    assert read.retry == Retry(on=("Conflict",))
    assert list(unknown_keys(Step, document.value)) == []


def test_unknown_keys_are_found_with_similar_known_ones() -> None:
    document = parse_document(
        "steps: [{step: a, funcversion: v1, objects: {b: {limt: 1}}, args: {any: 1}}]"
    )

    version, limit = unknown_keys(Pipeline, document.value)

    assert version.path == ("steps", 0, "funcversion")
    assert version.suggestion == "; did you mean funcVersion?"
    assert limit == UnknownKey(
        ("steps", 0, "objects", "b", "limt"), ("limit", "backoff", "factor", "on", "true")
    )


def test_partial_reading_leaves_wrong_parts_out() -> None:
    document = parse_document(
        "steps:\n"
        "- {step: a, funcVersion: 5, retry: {limit: -1, on: [x, 1]}, rules: [{kind: b, z: 1}]}\n"
        "- {funcVersion: v1}\n"
        "- {step: c, isLast: true, rules: [{kind: d}], unknown: 1}\n"
    )

    partial = read_partly(Pipeline, document)

    assert partial.value == Pipeline(
        steps=(
            Step(step="a", retry=Retry(on=("x",)), rules=(Rule(kind="b"),)),
            Step(step="c", is_last=True),
        )
    )
    assert set(partial.problems) == {
        ("steps", 0, "funcVersion"),
        ("steps", 0, "retry", "limit"),
        ("steps", 0, "retry", "true", 1),
        ("steps", 0, "rules", 0, "z"),
        ("steps", 1, "step"),
        ("steps", 2, "rules"),
    }
    assert [unknown.path for unknown in partial.unknown_keys] == [("steps", 2, "unknown")]
    assert document.value["steps"][0]["funcVersion"] == 5


@pytest.mark.parametrize("written", [[], 5, "text", {"step": 5}])
def test_partial_reading_ends_when_nothing_fits(written: Any) -> None:
    partial = read_partly(Step, Document.of(written))

    assert partial.problems
    assert partial.value.func_version == ""


def test_problems_of_an_error_have_paths_for_any_document() -> None:
    with pytest.raises(ValidationError) as refused:
        Step.model_validate({"step": "a", "retry": {"limit": "1"}})

    assert problems_of(refused.value, Step) == [
        (("retry", "limit"), "Must be a whole number, found '1'")
    ]


def test_problems_found_later_have_the_places_of_the_document() -> None:
    document = parse_document(
        "steps:\n"
        "- {step: a, rules: [5, {match_labels: {}}, {kind: b, z: 1}]}\n"
        "- {}\n"
        "- {step: c, retry: {limit: -1}, rules: [{kind: ok}], isLast: true}\n"
    )

    partial = read_partly(Pipeline, document)

    assert {path: problem.line for path, problem in partial.problems.items()} == {
        ("steps", 0, "rules", 0): 2,
        ("steps", 0, "rules", 1, "kind"): 2,
        ("steps", 0, "rules", 1, "match_labels"): 2,
        ("steps", 0, "rules", 2, "z"): 2,
        ("steps", 1, "step"): 3,
        ("steps", 2, "retry", "limit"): 4,
        ("steps", 2, "rules"): 4,
    }
    assert partial.value == Pipeline(
        steps=(Step(step="a", rules=(Rule(kind="b"),)), Step(step="c", retry=Retry(), is_last=True))
    )
