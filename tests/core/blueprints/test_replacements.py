from __future__ import annotations

import pytest

from kanister_py.core.blueprints.replacements import renames_between, replacement_of
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.versions.semver import parse_version


@pytest.mark.parametrize(
    ("function", "version", "release", "want", "renamed"),
    [
        pytest.param("Notify", "v0.2.0", "", "v0.3.0", {"to": "recipient"}, id="one step"),
        pytest.param(
            "Notify",
            "v0.1.0",
            "",
            "v0.3.0",
            {"whom": "recipient"},
            id="a chain, to its end",
        ),
        pytest.param(
            "Notify",
            "v0.1.0",
            "0.1.0",
            "v0.2.0",
            {"whom": "to"},
            id="a release in which the next one is served",
        ),
        pytest.param("Bury", "v0.1.0", "", None, None, id="nothing replaces it"),
        pytest.param("Linger", "v0.0.0", "", "v0.1.0", {}, id="a default"),
    ],
)
def test_a_version_is_replaced_by_the_last_of_its_chain(
    registry: Registry[FunctionEntry],
    function: str,
    version: str,
    release: str,
    want: str | None,
    renamed: dict[str, str] | None,
) -> None:
    family = registry.family(function)
    entry = family.by_identity[parse_version(version)]
    at = {"acme": parse_version(release)} if release else {}
    found = replacement_of(family, entry, at)
    if found is None:
        assert want is None
    else:
        assert (str(found.entry.version), dict(found.renamed_args)) == (want, renamed)


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param("v0.1.0", "v0.2.0", {"whom": "to"}, id="one step"),
        pytest.param("v0.1.0", "v0.3.0", {"whom": "recipient"}, id="two steps"),
        pytest.param("v0.2.0", "v0.3.0", {"to": "recipient"}, id="the last step"),
        pytest.param("v0.3.0", "v0.1.0", {}, id="a step back"),
        pytest.param("v0.3.0", "v0.3.0", {}, id="no step"),
    ],
)
def test_names_of_arguments_are_followed_over_several_replacements(
    registry: Registry[FunctionEntry], before: str, after: str, want: dict[str, str]
) -> None:
    family = registry.family("Notify")
    old, new = (family.by_identity[parse_version(each)] for each in (before, after))
    assert dict(renames_between(family, old, new)) == want
