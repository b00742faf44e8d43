"""Replacements of deprecated and removed versions, and what arguments are called there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kanister_py.core.registry.entries import Family, FunctionEntry
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.versions.semver import Version


class Replacement(NamedTuple):
    """The version at the end of a chain of replacements, and what arguments are called there."""

    entry: FunctionEntry
    renamed_args: Mapping[str, str]


def replacement_of(
    family: Family[FunctionEntry], entry: FunctionEntry, at: Mapping[str, Version]
) -> Replacement | None:
    """Follow replacements to the first version that is served for good.

    One that is itself deprecated and has no replacement is better than none; one
    that is removed or not there yet is none.
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
    """Say what the arguments of a version are called in one that replacements lead to."""
    chain = _chain_from(family, before)
    renames = (each.renamed_args for each in chain if each.entry.version == after.version)
    return next(renames, {})


def _chain_from(family: Family[FunctionEntry], entry: FunctionEntry) -> Iterator[Replacement]:
    """Follow replacements to the end, or to one that was there before."""
    renamed: Mapping[str, str] = MappingProxyType({})
    seen = {entry.version}
    while (replacement := entry.listing.replacement) is not None and replacement not in seen:
        after = family.by_identity.get(replacement)
        if after is None:
            return
        seen.add(replacement)
        renamed = MappingProxyType(_composed(renamed, entry.listing.renamed_args))
        entry = after
        yield Replacement(entry, renamed)


def _composed(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    """Rename what was renamed before once more, and what is renamed only now."""
    both = {old: then.get(new, new) for old, new in first.items()}
    return {**{old: new for old, new in then.items() if old not in first.values()}, **both}
