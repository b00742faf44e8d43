"""Does what is documented of an input agree with what the function takes?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kanister_py.core.registry.entries import FunctionEntry, FunctionKind
from kanister_py.core.registry.reference import version_reference
from kanister_py.executor.loading import load_function
from kanister_py.wiring import read_functions

ENTRIES = [
    entry
    for family in read_functions().registry
    for entry in family
    if entry.kind is FunctionKind.COMPOSITION and entry.source.is_ours
]


def filled(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int = 0) -> Any:
    """Make something that fits a schema, with every field there is."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        schema = next(each for each in schema["anyOf"] if each.get("type") != "null")
        return filled(schema, definitions, depth)
    kind = schema.get("type")
    if "enum" in schema or "const" in schema:
        return schema.get("const") or schema["enum"][0]
    if kind == "object" and "properties" in schema:
        return {
            key: filled(each, definitions, depth + 1) for key, each in schema["properties"].items()
        }
    if kind == "array":
        return [filled(schema["items"], definitions, depth + 1)]
    return {"object": {"k": "text"}, "integer": 1, "string": "text"}.get(str(kind), {})


@pytest.mark.parametrize("entry", ENTRIES, ids=[each.function for each in ENTRIES])
def test_a_function_knows_every_field_that_is_documented(entry: FunctionEntry) -> None:
    code = load_function(entry)
    schema = code.described_input().model_json_schema(by_alias=True)
    given = filled(schema, schema.get("$defs", {}))
    answer = code().run({"observed": {}, "desired": {}, "context": {}, "input": given})
    messages = [each["message"] for each in answer.get("results", [])]
    assert [each for each in messages if each.startswith("cannot get Function input")] == []


@pytest.mark.parametrize("entry", ENTRIES, ids=[each.function for each in ENTRIES])
def test_every_field_of_an_input_is_described(entry: FunctionEntry) -> None:
    fields = version_reference(entry, load_function(entry))["arguments"]
    assert fields
    assert [each["name"] for each in fields if not each["description"]] == []
