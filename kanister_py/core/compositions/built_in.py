"""Built-in functions as revisions: which version here answers for the package of a Function.

Of a Function that runs in this process, and of plugins, a tag speaks our numbers. Packages
of others keep their own: the record says which of their releases a version stands for.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from kanister_py.core.compositions.endpoints import builtin_endpoint
from kanister_py.core.errors import (
    FunctionNotRegistered,
    FunctionVersionNotFound,
    FunctionVersionRemoved,
    InvalidVersion,
)
from kanister_py.core.registry.choose import Asked, Choice, choose_version
from kanister_py.core.registry.entries import (
    Family,
    FunctionEntry,
    FunctionKind,
    FunctionRevision,
    Registry,
)
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.versions.semver import Range, parse_request, parse_version

OWNER = "crossplane-contrib"
OURS = "kanister-py"
_NO_TAGS = ("", "latest")


class StandIn(NamedTuple):
    """A version here that is taken for the package of others.

    `is_stated`: the record says that it stands for that very release. `ranges` are the
    releases that any version of it stands for.
    """

    entry: FunctionEntry
    is_stated: bool
    ranges: tuple[str, ...] = ()


def choose_built_in(
    entries: Registry[FunctionEntry], function: str, tag: str
) -> Choice[FunctionEntry]:
    """Choose the version that a tag of ours names, and no other; without a tag, the stable one.

    Raises what `choose_version` does for one that is unknown, planned or removed.
    """
    asked = Asked() if tag in _NO_TAGS else Asked(tag, "the tag of the package")
    try:
        return choose_version(entries, function, asked, strict=True, kind=FunctionKind.COMPOSITION)
    except FunctionVersionRemoved as gone:
        where = "the tag of spec.package"
        raise FunctionVersionRemoved(
            gone.function, gone.version, gone.removed_in, gone.replacement, where
        ) from None


def run_by_tag(
    revision: FunctionRevision, entries: Registry[FunctionEntry], function: str, tag: str
) -> FunctionRevision:
    """Have the version that a tag of ours names run a revision; else it is not well, and says why.

    What was removed keeps its place, so that who asks for it hears of that.
    """
    try:
        return run_by(revision, choose_built_in(entries, function, tag).chosen)
    except FunctionVersionRemoved as error:
        gone = entries.family(function).by_identity[parse_version(error.version)]
        return run_by(revision, gone)
    except (FunctionNotRegistered, FunctionVersionNotFound, InvalidVersion) as error:
        return revision._replace(is_healthy=False, endpoint="", trouble=error.message)


def run_by(revision: FunctionRevision, entry: FunctionEntry) -> FunctionRevision:
    """Give a revision as run by a version that is here."""
    return revision.run_by(entry, builtin_endpoint(entry.function, str(entry.version)))


def composition_families(entries: Registry[FunctionEntry]) -> Iterator[Family[FunctionEntry]]:
    return (family for family in entries if family.candidates[0].kind is FunctionKind.COMPOSITION)


def built_in_revisions(entries: Registry[FunctionEntry]) -> Iterator[FunctionRevision]:
    """Offer every composition function that is here, under its name and its upstream name."""
    for family in composition_families(entries):
        # The default must be what a step gets that names no version: the highest number.
        ordered = sorted(family, key=lambda each: (each is family.default, each.rank))
        for number, entry in enumerate(ordered, 1):
            name = f"{entry.function}-{entry.version}"
            made = run_by(FunctionRevision(entry.function, name, number, is_healthy=True), entry)
            yield made
            prefixed = f"{OWNER}-{entry.function}"
            if prefixed not in entries:
                yield made._replace(function=prefixed, name=f"{OWNER}-{name}")


def named_here(entries: Registry[FunctionEntry], repository: str) -> str:
    """Say which function here a repository is called after; empty if none."""
    name = repository.rpartition("/")[2]
    return name if name in {each.function for each in composition_families(entries)} else ""


def stand_in_for(entries: Registry[FunctionEntry], repository: str, tag: str) -> StandIn | None:
    """Find what stands for a package of others: what the record says, else what is called so."""
    for family in composition_families(entries):
        patterns = [
            (entry, wanted)
            for entry in _preferred(family)
            for pattern, wanted in entry.listing.stands_for.items()
            if fnmatchcase(repository, pattern)
        ]
        if not patterns:
            continue
        ranges = tuple(dict.fromkeys(wanted for _, wanted in patterns))
        for entry, wanted in patterns:
            if _is_inside(tag, wanted):
                return StandIn(entry, True, ranges)
        return StandIn(family.default or family.candidates[0], False, ranges)
    return None


def _preferred(family: Family[FunctionEntry]) -> list[FunctionEntry]:
    """Give the versions that serve, the stable one first, deprecated ones last."""
    usable = [each for each in family if each.support_at() in (Support.SERVED, Support.DEPRECATED)]
    return sorted(
        usable,
        key=lambda each: (each is not family.default, each.support_at() is Support.DEPRECATED),
    )


def _is_inside(tag: str, wanted: str) -> bool:
    if tag in _NO_TAGS:
        return True
    try:
        version = parse_version(tag)
    except InvalidVersion:
        return False
    request = parse_request(wanted)
    return version in request if isinstance(request, Range) else version == request
