"""Whose package is it, and what is built in for it?"""

from __future__ import annotations

import pytest

from kanister_py.core.compositions.installed import (
    built_in,
    installed,
    stand_ins_used,
)
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.objects.documents import Document, parse_documents
from kanister_py.core.registry.choose import choose_revision
from kanister_py.core.revisions.stand_ins import repository_of
from kanister_py.wiring import read_functions


@pytest.mark.parametrize(
    ("package", "want"),
    [
        (
            "xpkg.crossplane.io/crossplane-contrib/function-a:v0.1.0",
            "crossplane-contrib/function-a",
        ),
        ("localhost:5000/crossplane-contrib/function-a", "crossplane-contrib/function-a"),
        ("crossplane-contrib/function-a@sha256:00", "crossplane-contrib/function-a"),
        ("registry.example.org/a/b/c:v1@sha256:00", "a/b/c"),
        ("function-a", "function-a"),
        ("", ""),
    ],
)
def test_a_package_is_known_without_host_tag_and_digest(package: str, want: str) -> None:
    assert repository_of(package) == want


def test_every_composition_function_is_offered_under_both_names() -> None:
    registry = built_in(read_functions().registry).registry()
    for name in ("function-auto-ready", "crossplane-contrib-function-auto-ready"):
        revision = choose_revision(registry, name).chosen
        assert revision.endpoint == "builtin:function-auto-ready@v0.1.0"
        assert revision.is_routable
    assert "KubeTask" not in registry


def test_a_stand_in_is_told_once_and_a_function_of_ours_is_none() -> None:
    names = ["function-a", "crossplane-contrib-function-a", "crossplane-contrib-function-a"]
    assert [each.function for each in stand_ins_used(names)] == ["function-a"]


@pytest.mark.parametrize(("size", "want"), [("32Mi", 32 << 20), ("1000", 1000), ("", 0)])
def test_a_function_says_how_large_its_answers_may_be(size: str, want: int) -> None:
    [revision] = installed(_function(size), read_functions().registry).revisions
    assert revision.answer_limit_bytes == want


@pytest.mark.parametrize("size", ["much", "-1", "1m"])
def test_a_size_that_is_none_is_a_mistake_in_the_document(size: str) -> None:
    with pytest.raises(InvalidDocument, match=r"max-answer-size.*is not a quantity"):
        installed(_function(size), read_functions().registry)


def _function(size: str) -> list[Document]:
    text = f"""
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata:
  name: function-x
  annotations:
    render.crossplane.io/runtime: Development
    kanister-py.io/max-answer-size: "{size}"
spec: {{package: example.org/function-x:v1.0.0}}
"""
    return parse_documents(text, "functions.yaml")
