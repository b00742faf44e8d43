from __future__ import annotations

import pytest

from kanister_py.core.blueprints.replacements import replacement_of
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
