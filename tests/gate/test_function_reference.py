"""Completeness of the function reference: descriptions of versions, arguments and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, Field

from kanister_py.core.registry.entries import FunctionKind
from kanister_py.executor.loading import load_function
from kanister_py.functions.builtin import BUILTIN_FUNCTIONS, DISTRIBUTION
from kanister_py.wiring import read_functions

VERSIONS = {
    f"{entry.function} {entry.version}": (entry.kind, load_function(entry))
    for family in read_functions().registry
    for entry in family
    if entry.source.name == DISTRIBUTION and entry.target is not None
}


def fields_of(model: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the description of every field, including nested models."""
    schema = model.model_json_schema(by_alias=True)
    for definition in (schema, *schema.get("$defs", {}).values()):
        for name, field in definition.get("properties", {}).items():
            yield name, field.get("description", "").strip()


def models_of(kind: FunctionKind, code: Any) -> list[Any]:
    if kind is FunctionKind.COMPOSITION:
        return [code.described_input()]
    return [code.Args, code.Outputs]


def test_every_argument_and_output_of_every_version_has_a_description() -> None:
    fields = [
        (version, name, description)
        for version, (kind, code) in VERSIONS.items()
        for model in models_of(kind, code)
        for name, description in fields_of(model)
    ]
    missing = [f"{version}: {name}" for version, name, description in fields if not description]
    assert missing == []
    assert {version for version, _, _ in fields} == {
        f"{name} {version}" for name, versions in BUILTIN_FUNCTIONS.items() for version in versions
    }


def test_every_version_has_a_summary_in_one_sentence() -> None:
    summaries = {
        version: (code.__doc__ or "").partition("\n")[0] for version, (_, code) in VERSIONS.items()
    }
    assert {version: text for version, text in summaries.items() if not text.endswith(".")} == {}


class Inner(BaseModel):
    """Nested model without descriptions."""

    depth: int


class Sample(BaseModel):
    """Model with and without descriptions."""

    name: str = Field(description="The name.")
    size: int
    inner: Inner = Field(description="The nested model.")


def test_fields_without_a_description_are_found_in_nested_models() -> None:
    missing = [name for name, description in fields_of(Sample) if not description]
    assert sorted(missing) == ["depth", "size"]
