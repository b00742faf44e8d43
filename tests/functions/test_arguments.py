"""Arguments of the built-in functions: pydantic models that are decoded loosely first."""

from __future__ import annotations

import pytest
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
from kanister_py.wiring import read_functions

ENTRIES = [
    entry
    for family in read_functions().registry
    for entry in family
    if entry.kind is FunctionKind.BLUEPRINT and entry.target is not None
]


def test_arguments_are_accepted_under_their_python_names_and_are_frozen() -> None:
    reference = ObjectReference(api_version="v1", name="x")
    assert reference == ObjectReference.model_validate({"apiVersion": "v1", "name": "x"})
    assert reference != ObjectReference()
    assert reference.gvr.version == "v1"
    assert "api_version='v1'" in repr(reference)
    with pytest.raises(ValidationError, match="Instance is frozen"):
        setattr(reference, "name", "y")  # noqa: B010 # mypy knows that it is frozen


def test_nested_models_are_read_from_loosely_written_arguments() -> None:
    arguments = {"conditions": {"anyOf": [{"objectReference": {"name": "x"}}]}, "timeout": "5m"}
    args = decode_args(WaitArgs, arguments)
    assert isinstance(args.conditions, Conditions)
    assert args.conditions.any_of[0].object_reference == ObjectReference(name="x")
    assert args.model_dump(by_alias=True)["conditions"]["anyOf"][0]["condition"] == ""


def test_problems_name_the_argument_and_the_value_found() -> None:
    with pytest.raises(InvalidArgs) as refused:
        decode_args(ScaleWorkloadArgs, {"replicas": "many"})
    assert [problem.message for problem in refused.value.problems] == [
        "Failed to decode arg `replicas`: cannot convert 'many' to a number, found 'many'"
    ]
    (problem,) = problems_of_args(RetentionArgs, {"encryptionKey": "k", "keep": {"last": -1}})
    assert problem.path == "keep.last"
    assert "greater than or equal to 0" in problem.message


def test_arguments_that_are_still_templates_are_left_out_of_the_validation() -> None:
    def is_open(value: object) -> bool:
        return isinstance(value, str) and "{{" in value

    args = {"encryptionKey": "{{ .Key }}", "keep": {"last": -1}}
    assert [problem.path for problem in problems_of_args(RetentionArgs, args, is_open)] == [
        "keep.last"
    ]
    args["keep"] = {"last": 1}
    assert problems_of_args(RetentionArgs, args, is_open) == []


def test_the_reference_of_a_function_lists_its_required_arguments() -> None:
    entry = next(entry for entry in ENTRIES if entry.function == "ScaleWorkload")
    reference = version_reference(entry, load_function(entry))
    assert [argument["name"] for argument in reference["arguments"] if argument["required"]] == [
        "replicas"
    ]
    assert parse_document("{replicas: 1}").value.keys() <= {
        argument["name"] for argument in reference["arguments"]
    }
