from __future__ import annotations

import pytest

from kanister_py.core.blueprints.replacements import renames_between, replacement_of
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.versions.semver import parse_version


@pytest.mark.parametrize(
    ("function", "version", "release", "expected", "renamed"),
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
            id="a release that supports the next version",
        ),
        pytest.param("Bury", "v0.1.0", "", None, None, id="nothing replaces it"),
        pytest.param("Linger", "v0.0.0", "", "v0.1.0", {}, id="a default"),
    ],
)
def test_version_is_replaced_by_the_last_of_its_chain(
    registry: Registry[FunctionEntry],
    function: str,
    version: str,
    release: str,
    expected: str | None,
    renamed: dict[str, str] | None,
) -> None:
    family = registry.family(function)
    entry = family.by_identity[parse_version(version)]
    at = {"acme": parse_version(release)} if release else {}
    replacement = replacement_of(family, entry, at)
    if replacement is None:
        assert expected is None
    else:
        assert (str(replacement.entry.version), dict(replacement.renamed_args)) == (
            expected,
            renamed,
        )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("v0.1.0", "v0.2.0", {"whom": "to"}, id="one step"),
        pytest.param("v0.1.0", "v0.3.0", {"whom": "recipient"}, id="two steps"),
        pytest.param("v0.2.0", "v0.3.0", {"to": "recipient"}, id="the last step"),
        pytest.param("v0.3.0", "v0.1.0", {}, id="a step back"),
        pytest.param("v0.3.0", "v0.3.0", {}, id="no step"),
    ],
)
def test_argument_names_are_mapped_over_several_replacements(
    registry: Registry[FunctionEntry], before: str, after: str, expected: dict[str, str]
) -> None:
    family = registry.family("Notify")
    old, new = (family.by_identity[parse_version(version)] for version in (before, after))
    assert dict(renames_between(family, old, new)) == expected
