"""Registry of built-in functions, in several states of support."""

from __future__ import annotations

from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.versions.deprecation import Listing
from kanister_py.core.versions.semver import parse_version


def entries() -> Registry[FunctionEntry]:
    """Build a function with versions of every support status in release 0.4.0."""
    lives = {
        "v0.1.0": Listing(
            deprecated_in=parse_version("0.2.0"),
            removed_in=parse_version("0.4.0"),
            replacement=parse_version("v0.3.0"),
        ),
        "v0.2.0": Listing(
            deprecated_in=parse_version("0.3.0"), replacement=parse_version("v0.3.0")
        ),
        "v0.3.0": Listing(),
        "v0.4.0": Listing(),
        "v0.5.0": Listing(since=parse_version("0.5.0")),
    }
    source = Source("kanister-py", parse_version("0.4.0"), is_ours=True)
    family = [
        FunctionEntry(
            "function-auto-ready",
            parse_version(text),
            FunctionKind.COMPOSITION,
            source,
            None if text == "v0.1.0" else object,
            listing,
            is_stable=text == "v0.3.0",
        )
        for text, listing in lives.items()
    ]
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    builder.add(family, default_of(family))
    return builder.build()


ENTRIES = entries()
