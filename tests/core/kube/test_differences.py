"""Differences between two JSON values, by path."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.kube.differences import differences_of


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="nothing"),
        pytest.param({"a": 1}, {"a": 2}, ["~ a: 1 -> 2"], id="a value"),
        pytest.param({"a": 1}, {"a": True}, ["~ a: 1 -> true"], id="a kind of value"),
        pytest.param(
            {}, {"a": {"b": 1}}, ['+ a: {"b": 1}'], id="an added object is one difference"
        ),
        pytest.param({"a": None}, {}, ["- a: null"], id="a null that went"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, ["- a[1]: 2"], id="an item that went"),
        pytest.param(
            {"a": {"b": 1, "c": [{"d": 1}]}},
            {"a": {"b": 2, "c": [{"d": 2}]}},
            ["~ a.b: 1 -> 2", "~ a.c[0].d: 1 -> 2"],
            id="places deep inside, in order",
        ),
        pytest.param({"a": "x" * 99}, {}, [f'- a: "{"x" * 58}…'], id="a long text, cut"),
    ],
)
def test_differences_are_listed_by_path(before: Any, after: Any, want: list[str]) -> None:
    differences = differences_of(before, after)
    assert [str(difference) for difference in differences] == want
