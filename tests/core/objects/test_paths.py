"""Paths lead to fields, and say how far they led."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.objects.paths import (
    FieldPath,
    InvalidPath,
    PathNotFound,
    find_path,
    parse_path,
    read_path,
)


def web() -> dict[str, Any]:
    return {
        "metadata": {"annotations": {"example.org/a.b": "x"}},
        "spec": {"containers": [{"name": "main", "ports": [80, 443]}, {"name": "side"}]},
    }


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("spec.containers[1].name", "side"),
        ("spec.containers[0].ports[1]", 443),
        ("metadata.annotations[example.org/a.b]", "x"),
        ("metadata.annotations['example.org/a.b']", "x"),
        ('metadata["annotations"]["example.org/a.b"]', "x"),
    ],
)
def test_a_path_is_followed(path: str, want: object) -> None:
    assert read_path(web(), path) == want


@pytest.mark.parametrize(
    ("path", "at"),
    [
        ("spec.volumes[0]", "spec"),
        ("spec.containers[7].name", "spec.containers"),
        ("spec.containers[0].name.first", "spec.containers[0].name"),
        ("spec[0]", "spec"),
    ],
)
def test_a_path_that_ends_early_says_where(path: str, at: str) -> None:
    with pytest.raises(PathNotFound) as caught:
        read_path(web(), path)
    assert caught.value.at == at
    assert find_path(web(), path, "nothing") == "nothing"


@pytest.mark.parametrize(
    "path", [".a", "a.", "a..b", "a[", "a[]", "a[b", "a]", "a.[b]", "a[0]b", "a[2000]", "a['b]"]
)
def test_a_text_that_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidPath):
        parse_path(path)


names = st.text(
    st.characters(codec="ascii", categories=["L", "N", "P"], exclude_characters="'\"[]")
)


@given(
    st.lists(
        st.one_of(
            names.filter(lambda name: name not in {"", "*"} and not name.isdigit()),
            st.integers(0, 1024),
        ),
        min_size=1,
    )
)
def test_a_path_that_was_written_is_read_as_the_same_steps(steps: list[str | int]) -> None:
    path = FieldPath(tuple(steps))
    assert parse_path(str(path)) == path
