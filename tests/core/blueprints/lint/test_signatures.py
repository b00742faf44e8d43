from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, field_validator, model_validator

from kanister_py.core.blueprints.lint.signatures import (
    Signature,
    is_clear,
    may_be_template,
)
from kanister_py.core.objects.weak import problems_of_args
from kanister_py.ports.models import Args, Outputs
from tests.signatures import signature_of


class PlaceArgs(Args):
    name: str = ""


class EveryKindArgs(Args):
    text: str
    texts: list[str] = Field(default_factory=list)
    whole: int = 0
    truth: bool = False
    some_map: dict[str, Any] | None = None
    text_map: dict[str, str] = Field(default_factory=dict)
    bounded: int = Field(default=1, ge=1)
    place: PlaceArgs = Field(default_factory=PlaceArgs)
    checked: str = ""
    patterned: str = Field(default="", json_schema_extra={"pattern": "[a-c]"})

    @field_validator("checked", "patterned")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in ("", "a", "b", "c"):
            raise ValueError("Must be a")
        return value


class SizeOutputs(Outputs):
    file_size: int


class EveryKind:
    Args = EveryKindArgs
    Outputs = SizeOutputs


SIGNATURE = signature_of(EveryKind)


def test_a_signature_is_read_off_the_models_of_a_function() -> None:
    assert signature_of(EveryKind) == Signature(
        frozenset({"text"}),
        {
            "text": {"type": "string"},
            "texts": {"type": "array", "items": {"type": "string"}},
            "whole": {"type": "integer"},
            "truth": {"type": "boolean"},
            "someMap": {
                "anyOf": [{"type": "object", "additionalProperties": True}, {"type": "null"}]
            },
            "textMap": {"type": "object", "additionalProperties": {"type": "string"}},
            "bounded": {"type": "integer", "minimum": 1},
            "place": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"name": {"type": "string"}},
            },
            "checked": None,
            "patterned": {"type": "string", "pattern": "[a-c]"},
        },
        frozenset({"fileSize"}),
    )


def test_args_that_only_the_code_can_judge_together_are_never_clear() -> None:
    class Judged:
        class Args(EveryKindArgs):
            @model_validator(mode="after")
            def _together(self) -> Judged.Args:
                return self

    assert not is_clear(signature_of(Judged), {"text": "x"})


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"text": "x"}, id="what is required"),
        pytest.param({"text": "{{ .Time }}", "whole": "{{ 3 }}"}, id="templates"),
        pytest.param(
            {"text": "x", "texts": ["a"], "whole": 3, "truth": True, "someMap": {"a": [1]}},
            id="literals of their kinds",
        ),
        pytest.param(
            {"text": "x", "bounded": 7, "place": {"name": "y"}, "patterned": "b"},
            id="what bounds, inner models and patterns allow",
        ),
    ],
)
def test_what_is_beyond_doubt_is_clear(args: dict[str, Any]) -> None:
    assert is_clear(SIGNATURE, args)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "3", "true", "{{ .Time }}"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "name"]), inner)
    ),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*SIGNATURE.args, "Text", "other"]), values))
def test_what_is_clear_has_no_problem_that_the_code_would_find(args: dict[str, Any]) -> None:
    def is_open(value: object) -> bool:
        return isinstance(value, str) and may_be_template(value)

    if is_clear(SIGNATURE, args):
        assert problems_of_args(EveryKindArgs, args, is_open) == []
