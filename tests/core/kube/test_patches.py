"""Merge patches and JSON patches."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.patches import (
    InvalidPatch,
    json_patched,
    merge_patched,
)

plain = st.one_of(st.booleans(), st.integers(-3, 3), st.text(max_size=3))
json_values = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "foo"}, None, None),
    ],
)
def test_merge_patch_examples_of_the_rfc(target: Any, patch: Any, want: Any) -> None:
    assert merge_patched(target, patch) == want


@given(json_values, json_values)
def test_merge_patch_does_not_modify_its_target(before: Any, patch: Any) -> None:
    kept = copy.deepcopy(before)
    merge_patched(before, patch)
    assert before == kept


@given(json_values)
def test_copy_is_equal_and_independent(value: Any) -> None:
    copied = copy_json(value)
    assert copied == value
    assert isinstance(value, str | int) or copied is not value


@pytest.mark.parametrize(
    ("target", "operations", "want"),
    [
        ({"a": [1, 2]}, [{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a/b": 1, "m~n": 2}, [{"op": "remove", "path": "/a~1b"}], {"m~n": 2}),
        ({"m~n": 2}, [{"op": "replace", "path": "/m~0n", "value": 3}], {"m~n": 3}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": 2}], 2),
    ],
)
def test_json_patch_operations(target: Any, operations: Any, want: Any) -> None:
    assert json_patched(target, operations) == want


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/b"},
        {"op": "replace", "path": "/b", "value": 1},
        {"op": "add", "path": "/l/9", "value": 1},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "remove", "path": "/l/-"},
        {"op": "test", "path": "/a", "value": True},
        {"op": "move", "from": "/l", "path": "/l/0"},
        {"op": "jump", "path": "/a"},
        {"op": "add", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/a/b/c", "value": 1},
    ],
)
def test_invalid_json_patch_is_refused(operation: dict[str, Any]) -> None:
    target = {"a": 1, "l": [1]}
    with pytest.raises(InvalidPatch):
        json_patched(target, [{"op": "remove", "path": "/l/0"}, operation])
    assert target == {"a": 1, "l": [1]}
