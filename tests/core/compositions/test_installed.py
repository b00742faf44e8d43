"""Whose package is it, and what is built in for it?"""

from __future__ import annotations

import pytest

from kanister_py.core.compositions.installed import built_in, repository_of, stand_ins_used
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
        [revision] = registry.family(name)
        assert revision.endpoint == "builtin:function-auto-ready@v0.1.0"
        assert revision.is_routable
    assert "KubeTask" not in registry


def test_a_stand_in_is_told_once_and_a_function_of_ours_is_none() -> None:
    names = ["function-a", "crossplane-contrib-function-a", "crossplane-contrib-function-a"]
    assert [each.function for each in stand_ins_used(names)] == ["function-a"]
