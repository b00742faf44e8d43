"""Weak decoding of arguments."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from kanister_py.core.yaml.weak import (
    ArgProblem,
    InvalidArgs,
    decode_args,
    problems_of_args,
)


class Reference(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    api_version: str = ""
    name: str = ""


class Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    most: int = 0


class TaskArgs(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    image: str
    command: tuple[str, ...]
    replicas: int = 1
    ratio: float = 0.5
    wait_for_ready: bool = True
    volumes: dict[str, str] = Field(default_factory=dict)
    object_reference: Reference | None = None
    pod_override: dict[str, Any] | None = None
    spec: Any = None
    mode: Literal["fast", "slow", "1"] = "fast"
    percent: Annotated[int, Field(ge=0, le=100)] = 0
    either: int | str = 0
    references: list[Reference] = Field(default_factory=list)
    limits: Limits | None = None


REQUIRED: dict[str, Any] = {"image": "busybox", "command": ["true"]}


def decoded(**args: Any) -> TaskArgs:
    return decode_args(TaskArgs, REQUIRED | args, "KubeTask")


def problems(**args: Any) -> tuple[ArgProblem, ...]:
    with pytest.raises(InvalidArgs) as refused:
        decode_args(TaskArgs, args, "KubeTask")
    return refused.value.problems


@pytest.mark.parametrize(
    ("arg", "written", "want"),
    [
        pytest.param("command", "true", ("true",), id="one text for a list"),
        pytest.param("command", 7, ("7",), id="one number for a list of text"),
        pytest.param("command", [], (), id="an empty list"),
        pytest.param("command", {}, (), id="an empty map for a list"),
        pytest.param("command", ["a", None], ("a", ""), id="a null inside a list of text"),
        pytest.param("image", 3, "3", id="a number for text"),
        pytest.param("image", 1.5, "1.5", id="a fraction for text"),
        pytest.param("image", 2.0, "2", id="a whole fraction for text"),
        pytest.param("image", 1e21, "1000000000000000000000", id="a huge fraction for text"),
        pytest.param("image", True, "1", id="true for text"),
        pytest.param("image", False, "0", id="false for text"),
        pytest.param("wait_for_ready", "true", True, id="true in quotes"),
        pytest.param("wait_for_ready", "1", True, id="one in quotes for a boolean"),
        pytest.param("wait_for_ready", "F", False, id="F for false"),
        pytest.param("wait_for_ready", "", False, id="nothing for a boolean"),
        pytest.param("wait_for_ready", 0, False, id="zero for a boolean"),
        pytest.param("wait_for_ready", 2, True, id="another number for a boolean"),
        pytest.param("replicas", "3", 3, id="a number in quotes"),
        pytest.param("replicas", "-3", -3, id="a negative number in quotes"),
        pytest.param("replicas", "", 0, id="nothing for a number"),
        pytest.param("replicas", "0x1F", 31, id="a number to the base of sixteen"),
        pytest.param("replicas", "017", 15, id="a number to the base of eight"),
        pytest.param("replicas", "1_000", 1000, id="a number with underscores"),
        pytest.param("replicas", 3.9, 3, id="a fraction for a whole number"),
        pytest.param("replicas", True, 1, id="true for a number"),
        pytest.param("ratio", "1e3", 1000.0, id="a fraction in quotes"),
        pytest.param("ratio", "", 0.0, id="nothing for a fraction"),
        pytest.param("ratio", 2, 2.0, id="a whole number for a fraction"),
        pytest.param("volumes", {"data": 1}, {"data": "1"}, id="values of a map"),
        pytest.param("volumes", [], {}, id="an empty list for a map"),
        pytest.param(
            "volumes", [{"a": "x"}, {"b": "y"}], {"a": "x", "b": "y"}, id="a list of maps"
        ),
        pytest.param(
            "object_reference",
            {"NAME": "x", "apiversion": "v1"},
            Reference(name="x", api_version="v1"),
            id="keys in other capitals",
        ),
        pytest.param(
            "object_reference", {"name": "x", "other": 1}, Reference(name="x"), id="unknown keys"
        ),
        pytest.param(
            "object_reference", {"name": None}, Reference(), id="a null inside a structure"
        ),
        pytest.param(
            "references", {"name": "x"}, [Reference(name="x")], id="one structure for a list"
        ),
        pytest.param("spec", {"a": [None, 1.5]}, {"a": [None, 1.5]}, id="anything at all"),
        pytest.param("pod_override", {"a": {"b": 1}}, {"a": {"b": 1}}, id="a map as it is"),
        pytest.param("mode", True, "1", id="a choice among texts"),
        pytest.param("either", "x", "x", id="one of several types"),
    ],
)
def test_argument_of_another_type_is_converted(arg: str, written: Any, want: Any) -> None:
    assert getattr(decoded(**{to_camel(arg): written}), arg) == want


@pytest.mark.parametrize(
    ("arg", "written", "path", "expected", "actual"),
    [
        pytest.param("image", {"a": 1}, "image", "text", "a map", id="a map for text"),
        pytest.param("image", ["a"], "image", "text", "a list", id="a list for text"),
        pytest.param("command", {"a": 1}, "command", "text", "a map", id="a map for a list"),
        pytest.param(
            "command", ["a", ["b"]], "command[1]", "text", "a list", id="a list inside a list"
        ),
        pytest.param("replicas", "three", "replicas", "a whole number", "'three'", id="words"),
        pytest.param("replicas", "1__0", "replicas", "a whole number", "'1__0'", id="stray marks"),
        pytest.param(
            "replicas", 1 << 63, "replicas", "a whole number", str(1 << 63), id="64 bits are over"
        ),
        pytest.param("waitForReady", "yes", "waitForReady", "true or false", "'yes'", id="a yes"),
        pytest.param("ratio", "1,5", "ratio", "a number", "'1,5'", id="a comma for a point"),
        pytest.param("volumes", "data", "volumes", "a map", "'data'", id="text for a map"),
        pytest.param(
            "volumes", {"a.b": []}, 'volumes["a.b"]', "text", "a list", id="a list in a map"
        ),
        pytest.param(
            "objectReference",
            {"Name": {}},
            "objectReference.Name",
            "text",
            "a map",
            id="a map in a structure",
        ),
    ],
)
def test_invalid_argument_is_reported_with_its_path(
    arg: str, written: Any, path: str, expected: str, actual: str
) -> None:
    assert [
        (problem.path, problem.kind, problem.expected, problem.actual)
        for problem in problems(**REQUIRED | {arg: written})
    ] == [(path, "type", expected, actual)]


def test_every_problem_is_reported() -> None:
    reported = problems(imagee="busybox", command={"a": "b"}, replicas="x")
    assert [(problem.path, problem.kind) for problem in reported] == [
        ("image", "missing"),
        ("imagee", "unknown"),
        ("command", "type"),
        ("replicas", "type"),
    ]


def test_messages_are_the_same_as_in_kanister() -> None:
    with pytest.raises(InvalidArgs) as refused:
        decode_args(TaskArgs, {"command": "x", "nonsense": 1, "replicas": []}, "KubeTask")
    assert refused.value.function == "KubeTask"
    assert refused.value.message == (
        "Args of KubeTask are refused: Required arg missing: image; "
        "argument nonsense is not supported; "
        "Failed to decode arg `replicas`: expected a whole number, found a list"
    )


def test_misspelt_argument_gets_a_suggestion() -> None:
    (problem,) = problems(**REQUIRED, waitForReadi=True)
    assert problem.message.endswith("is not supported; did you mean waitForReady?")


def test_strict_model_refuses_unknown_keys() -> None:
    (problem,) = problems(**REQUIRED, limits={"Most": "2", "mosst": 3})
    assert problem.kind == "unknown"
    assert problem.message == "argument limits.mosst is not supported; did you mean most?"
    assert decoded(limits={"Most": "2"}).limits == Limits(most=2)


def test_argument_names_are_case_sensitive() -> None:
    assert [problem.path for problem in problems(**REQUIRED, Replicas=2)] == ["Replicas"]
    assert [problem.path for problem in problems(**REQUIRED, wait_for_ready=True)] == [
        "wait_for_ready"
    ]


def test_a_null_counts_as_left_out() -> None:
    assert decoded(replicas=None, objectReference=None).replicas == 1
    assert [problem.kind for problem in problems(image=None, command=["true"])] == ["missing"]


def test_problem_of_a_validator_has_its_path() -> None:
    (problem,) = problems(**REQUIRED, percent="101")
    assert (problem.path, problem.actual) == ("percent", "101")


def test_problem_of_a_model_validator_has_its_message() -> None:
    class Wait(BaseModel):
        any_of: list[str] = Field(default_factory=list)

        @model_validator(mode="after")
        def _has_one(self) -> Wait:
            if not self.any_of:
                raise ValueError("Give at least one condition")
            return self

    with pytest.raises(InvalidArgs) as refused:
        decode_args(Wait, {}, "Wait")
    assert [problem.message for problem in refused.value.problems] == [
        "Give at least one condition"
    ]


def test_open_values_are_not_checked() -> None:
    def is_open(value: object) -> bool:
        return isinstance(value, str) and "{{" in value

    args = {
        "image": "{{ .Options.image }}",
        "command": ["{{ .x }}", ["b"]],
        "replicas": "{{ .Options.n }}",
        "percent": 200,
        "objectReference": "{{ .x }}",
        "{{ .x }}": 1,
    }
    assert [problem.path for problem in problems_of_args(TaskArgs, args, is_open)] == ["command[1]"]
    assert [
        problem.path for problem in problems_of_args(TaskArgs, REQUIRED | {"percent": 200})
    ] == ["percent"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class TestGeneratedArgs:
    """Any arguments are decoded or refused with paths."""

    @given(
        st.dictionaries(st.sampled_from([*map(to_camel, TaskArgs.model_fields), "other"]), _JSON),
        st.booleans(),
    )
    def test_args_are_decoded_or_refused(self, args: dict[str, Any], is_complete: bool) -> None:
        given_args = REQUIRED | args if is_complete else args
        try:
            result: object = decode_args(TaskArgs, given_args)
        except InvalidArgs as error:
            result = error.problems[0]
        assert isinstance(result, TaskArgs | ArgProblem)
