"""Registry with functions in all stages of deprecation, as of release 0.3.0 of their package."""

from __future__ import annotations

import pytest

from kanister_py.core.actionsets.model import check_schema
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.versions.deprecation import Listing, Release
from kanister_py.core.versions.semver import parse_version

RELEASES = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0")
PACKAGE = Source(
    "acme",
    parse_version("0.3.0"),
    tuple(Release(parse_version(release)) for release in RELEASES),
)


def entry(
    function: str,
    version: str,
    *,
    deprecated_in: str = "",
    removed_in: str = "",
    replacement: str = "",
    renamed_args: dict[str, str] | None = None,
    is_stable: bool = False,
    kind: FunctionKind = FunctionKind.BLUEPRINT,
) -> FunctionEntry:
    listing = Listing(
        since=parse_version("0.1.0"),
        deprecated_in=parse_version(deprecated_in) if deprecated_in else None,
        removed_in=parse_version(removed_in) if removed_in else None,
        replacement=parse_version(replacement) if replacement else None,
        renamed_args=renamed_args or {},
    )
    target = f"acme:{function}"
    return FunctionEntry(
        function, parse_version(version), kind, PACKAGE, target, listing, is_stable
    )


@pytest.fixture(scope="session")
def registry() -> Registry[FunctionEntry]:
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    for entries in (
        [entry("Greet", "v0.0.0", is_stable=True)],
        [
            entry(
                "Notify",
                "v0.1.0",
                deprecated_in="0.1.0",
                removed_in="0.3.0",
                replacement="v0.2.0",
                renamed_args={"whom": "to"},
            ),
            entry(
                "Notify",
                "v0.2.0",
                deprecated_in="0.2.0",
                removed_in="0.4.0",
                replacement="v0.3.0",
                renamed_args={"to": "recipient"},
            ),
            entry("Notify", "v0.3.0", is_stable=True),
            entry("Notify", "v0.4.0-rc.1"),
        ],
        [
            entry("Bury", "v0.0.0", is_stable=True),
            entry("Bury", "v0.1.0", deprecated_in="0.3.0", removed_in="0.5.0"),
            entry("Bury", "v0.2.0", deprecated_in="0.1.0", removed_in="0.3.0"),
        ],
        [
            entry("Linger", "v0.0.0", deprecated_in="0.2.0", replacement="v0.1.0"),
            entry("Linger", "v0.1.0"),
        ],
        [
            entry("Shout", "v0.2.0", deprecated_in="0.3.0", replacement="v0.3.0"),
            entry("Shout", "v0.3.0", is_stable=True),
        ],
        [entry("Compose", "v0.0.0", is_stable=True, kind=FunctionKind.COMPOSITION)],
    ):
        builder.add(entries, default_of(entries))
    return builder.build()


@pytest.fixture
def context(registry: Registry[FunctionEntry]) -> Context:
    return Context(registry, schema_checks={"ActionSet": check_schema})
