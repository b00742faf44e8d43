"""Documentation of inputs."""

from __future__ import annotations

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


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.function for entry in ENTRIES])
def test_every_field_of_an_input_is_described(entry: FunctionEntry) -> None:
    fields = version_reference(entry, load_function(entry))["arguments"]
    assert fields
    assert [field["name"] for field in fields if not field["description"]] == []
