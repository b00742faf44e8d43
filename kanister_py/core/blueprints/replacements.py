"""Replacements of deprecated and removed versions, with renamed arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kanister_py.core.registry.entries import Family, FunctionEntry
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.versions.semver import Version


class Replacement(NamedTuple):
    """Version at the end of a chain of replacements, with the new names of arguments."""

    entry: FunctionEntry
    renamed_args: Mapping[str, str]


def replacement_of(
    family: Family[FunctionEntry], entry: FunctionEntry, at: Mapping[str, Version]
) -> Replacement | None:
    """Follow replacements to the first version that is supported and not deprecated.

    Returns the last deprecated version if the chain has no such version, and None if all versions
    are removed or not released yet.
    """
    release = at.get(entry.source.name)
    best: Replacement | None = None
    for replacement in _chain_from(family, entry):
        support = replacement.entry.support_at(release)
        if support in (Support.SERVED, Support.DEPRECATED):
            best = replacement
        if support is Support.SERVED:
            break
    return best


def renames_between(
    family: Family[FunctionEntry], before: FunctionEntry, after: FunctionEntry
) -> Mapping[str, str]:
    """Map argument names of version `before` to their names in its replacement `after`."""
    chain = _chain_from(family, before)
    renames = (
        replacement.renamed_args
        for replacement in chain
        if replacement.entry.version == after.version
    )
    return next(renames, {})


def _chain_from(family: Family[FunctionEntry], entry: FunctionEntry) -> Iterator[Replacement]:
    """Follow replacements to the end of the chain, or to a version that was visited before."""
    renamed: Mapping[str, str] = MappingProxyType({})
    visited = {entry.version}
    while (replacement := entry.listing.replacement) is not None and replacement not in visited:
        after = family.by_identity.get(replacement)
        if after is None:
            return
        visited.add(replacement)
        renamed = MappingProxyType(_composed(renamed, entry.listing.renamed_args))
        entry = after
        yield Replacement(entry, renamed)


def _composed(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    """Compose two renamings: `first`, then `then`."""
    both = {old: then.get(new, new) for old, new in first.items()}
    return {**{old: new for old, new in then.items() if old not in first.values()}, **both}
