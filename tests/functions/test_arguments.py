"""Arguments of our own functions mean what the same declarations mean to pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field as ModelField
from pydantic import ValidationError

from kanister_py.core.registry.entries import FunctionKind
from kanister_py.core.registry.reference import version_reference
from kanister_py.core.yaml.documents import parse_document
from kanister_py.core.yaml.weak import InvalidArgs, decode_args, problems_of_args
from kanister_py.executor.loading import load_function
from kanister_py.functions.blueprint.conditions import Conditions, WaitArgs
from kanister_py.functions.blueprint.keyed_repository import RetentionArgs
from kanister_py.functions.blueprint.references import ObjectReference
from kanister_py.functions.blueprint.scale_workload.v0_0_0 import ScaleWorkloadArgs
from kanister_py.ports.arguments import Args
from kanister_py.wiring import read_functions

ENTRIES = [
    entry
    for family in read_functions().registry
    for entry in family
    if entry.kind is FunctionKind.BLUEPRINT and entry.target is not None
]

_texts = st.sampled_from(["", "a", "5m", "10Gi", "GET", "ReadWriteOnce", "2xx", "3", "\ud800", "ä"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 300) | st.floats() | _texts,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["anyOf", "allOf", "condition", "objectReference", "name", "last"]),
            inner,
            max_size=2,
        )
    ),
    max_leaves=5,
)


def taken_by(model: Any, values: Mapping[str, Any]) -> Any:
    try:
        made = model.model_validate(values)
    except ValidationError as error:
        return [(each["type"], each["loc"], each["msg"]) for each in error.errors()]
    return repr(made.model_dump(by_alias=True))


@given(data=st.data())
def test_a_declaration_takes_and_refuses_what_its_model_does(data: st.DataObject) -> None:
    args = load_function(data.draw(st.sampled_from(ENTRIES))).Args
    slots = args.model_fields
    required = {slot.alias for slot in slots.values() if slot.is_required()}
    plain: st.SearchStrategy[Any] = st.one_of(
        st.text("ab", max_size=2), st.just([]), st.just("5m"), st.just({})
    )
    others = {slot.alias for slot in slots.values()} | slots.keys() | {"other"}
    values = data.draw(
        st.fixed_dictionaries(
            dict.fromkeys(required, plain | _values),
            optional=dict.fromkeys(sorted(others - required), _values),
        )
    )
    assert taken_by(args, values) == taken_by(args.pydantic_model(), values)


def test_names_in_python_are_taken_too_and_values_stay_as_they_are() -> None:
    reference = ObjectReference(api_version="v1", name="x")
    assert reference == ObjectReference.model_validate({"apiVersion": "v1", "name": "x"})
    assert reference != ObjectReference()
    assert reference.gvr.version == "v1"
    assert "api_version='v1'" in repr(reference)
    with pytest.raises(AttributeError, match="cannot be changed: name"):
        reference.name = "y"  # type: ignore[misc] # what is tried


def test_parts_are_declarations_themselves() -> None:
    given_ = {"conditions": {"anyOf": [{"objectReference": {"name": "x"}}]}, "timeout": "5m"}
    args = decode_args(WaitArgs, given_)
    assert isinstance(args.conditions, Conditions)
    assert args.conditions.any_of[0].object_reference == ObjectReference(name="x")
    assert args.model_dump(by_alias=True)["conditions"]["anyOf"][0]["condition"] == ""
    # What only the model takes comes back as what was declared, too.
    strange = WaitArgs.model_validate({**given_, "conditions": {"anyOf": ({},)}})
    assert strange.conditions.any_of[0].object_reference == ObjectReference()


def test_a_refusal_has_the_words_of_the_model() -> None:
    with pytest.raises(InvalidArgs) as refused:
        decode_args(ScaleWorkloadArgs, {"replicas": "many"})
    assert [each.message for each in refused.value.problems] == [
        "Failed to decode arg `replicas`: cannot convert 'many' to a number, found 'many'"
    ]
    (problem,) = problems_of_args(RetentionArgs, {"encryptionKey": "k", "keep": {"last": -1}})
    assert problem.path == "keep.last"
    assert "greater than or equal to 0" in problem.message


def test_args_of_which_some_are_still_templates_are_judged_without_them() -> None:
    def is_open(value: object) -> bool:
        return isinstance(value, str) and "{{" in value

    args = {"encryptionKey": "{{ .Key }}", "keep": {"last": -1}}
    assert [each.path for each in problems_of_args(RetentionArgs, args, is_open)] == ["keep.last"]
    args["keep"] = {"last": 1}
    assert problems_of_args(RetentionArgs, args, is_open) == []


def test_a_field_of_the_library_in_a_declaration_of_ours_is_refused_with_the_way_out() -> None:
    class MixedArgs(Args):
        name: str = ModelField(description="whose")

    with pytest.raises(TypeError, match=r"derive it from kanister_py\.Args"):
        MixedArgs.model_validate({"name": "x"})


def test_what_is_told_of_a_function_needs_no_second_declaration() -> None:
    entry = next(each for each in ENTRIES if each.function == "ScaleWorkload")
    reference = version_reference(entry, load_function(entry))
    assert [each["name"] for each in reference["arguments"] if each["required"]] == ["replicas"]
    assert parse_document("{replicas: 1}").value.keys() <= {
        each["name"] for each in reference["arguments"]
    }
