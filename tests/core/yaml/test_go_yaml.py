"""YAML in the layout of Go's tools, compared with recorded output of sigs.k8s.io/yaml 1.6."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.yaml.documents import parse_document
from kanister_py.core.yaml.go_yaml import dump_go_yaml

RECORDED = [
    json.loads(line)
    for line in Path(__file__).with_name("recorded_go_yaml.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize(
    ("value", "want"), [pytest.param(value, want, id=name) for name, value, want in RECORDED]
)
def test_layout_equals_the_recorded_one(value: Any, want: str) -> None:
    assert dump_go_yaml({"v": value}) == want


TEXTS = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]) | st.just("\n"))
# Go does not quote these texts, so parsers read them as another type.
KEYS = TEXTS.filter(lambda text: text not in ("<<", "="))
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
)


@given(st.dictionaries(KEYS, DATA, min_size=1, max_size=4))
def test_formatted_data_is_parsed_to_the_same_data(value: dict[str, Any]) -> None:
    assert parse_document(dump_go_yaml(value)).value == value
