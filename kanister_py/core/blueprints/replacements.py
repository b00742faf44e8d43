"""Replacements of deprecated and removed versions, and what arguments are called there."""

from __future__ import annotations

from collections.abc import Mapping
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
    renamed: dict[str, str] = {}
    best: Replacement | None = None
    seen = {entry.version}
    here = entry
    while here.listing.replacement is not None and here.listing.replacement not in seen:
        seen.add(here.listing.replacement)
        after = family.by_identity.get(here.listing.replacement)
        if after is None:
            break
        renamed = _composed(renamed, here.listing.renamed_args)
        support = after.support_at(release)
        if support in (Support.SERVED, Support.DEPRECATED):
            best = Replacement(after, MappingProxyType(renamed))
        if support is Support.SERVED:
            break
        here = after
    return best


def renames_between(
    family: Family[FunctionEntry], before: FunctionEntry, after: FunctionEntry
) -> Mapping[str, str]:
    """Say what the arguments of a version are called in one that replacements lead to."""
    renamed: dict[str, str] = {}
    seen = {before.version}
    here = before
    while here.version != after.version:
        replacement = here.listing.replacement
        following = family.by_identity.get(replacement) if replacement is not None else None
        if following is None or following.version in seen:
            return {}
        seen.add(following.version)
        renamed = _composed(renamed, here.listing.renamed_args)
        here = following
    return renamed


def _composed(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    """Rename what was renamed before once more, and what is renamed only now."""
    both = {old: then.get(new, new) for old, new in first.items()}
    return {**{old: new for old, new in then.items() if old not in first.values()}, **both}
