"""Comparison of versions.yaml with that of the last release."""

from __future__ import annotations

from collections.abc import Iterable

from kanister_py.core.errors import Problem
from kanister_py.core.versions.catalogue import Catalogue
from kanister_py.core.versions.deprecation import (
    Listing,
)
from kanister_py.core.versions.semver import Version
from kanister_py.core.yaml.documents import text_of_path


def changes_refused(before: Catalogue, after: Catalogue) -> list[Problem]:
    """List changes of released versions that are not allowed.

    Released versions stay listed, a version that is no longer stable is deprecated, and no version
    is removed earlier than promised.
    """
    problems: list[Problem] = []
    for name in before.functions:
        old, new = before.listed(name), after.listed(name)
        for version, listing in old.items():
            here = text_of_path(("functions", name, "versions", str(version)))
            problems.extend(
                Problem("versions.yaml", 0, 0, here, message)
                for message in _changed(version, listing, new.get(version))
            )
        stable = before.functions[name].stable
        previous = new.get(stable) if stable is not None else None
        moved = name in after.functions and stable != after.functions[name].stable
        if moved and previous is not None and previous.deprecated_in is None:
            path = ("functions", name, "versions", str(stable), "deprecatedIn")
            message = f"{stable} was stable in the last release; deprecate it when the mark moves"
            problems.append(Problem("versions.yaml", 0, 0, text_of_path(path), message))
    return problems


def _changed(version: Version, old: Listing, new: Listing | None) -> Iterable[str]:
    if new is None:
        yield f"{version} was released; a number is never used twice, so keep it listed"
        return
    if new.since != old.since:
        yield f"since of {version} was released as {old.since.bare if old.since else 'nothing'}"
    if new.removed_in is not None and (
        old.removed_in is not None and new.removed_in < old.removed_in
    ):
        yield f"{version} was promised until {old.removed_in.bare}; it cannot be removed earlier"
