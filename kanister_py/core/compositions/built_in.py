"""Built-in functions as revisions: a version that is here, at an endpoint of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kanister_py.core.compositions.endpoints import builtin_endpoint
from kanister_py.core.errors import (
    FunctionNotRegistered,
    FunctionVersionNotFound,
    FunctionVersionRemoved,
    InvalidVersion,
)
from kanister_py.core.objects.parts import spec_of
from kanister_py.core.registry.entries import FunctionEntry, FunctionRevision, Origin, Registry
from kanister_py.core.revisions.functions import (
    package_name,
    says_in_process,
    tag_of_revision,
)
from kanister_py.core.revisions.stand_ins import (
    OWNER,
    choose_built_in,
    composition_families,
    repository_of,
    stand_in_for,
)
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.versions.semver import Version, parse_version


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
        lost = revision._replace(is_healthy=False, endpoint="", trouble=error.message)
        return lost._replace(origin=Origin.BUILT_IN)


def run_by_package(
    revision: FunctionRevision,
    entries: Registry[FunctionEntry],
    obj: Mapping[str, Any],
    *,
    strict: bool = False,
) -> FunctionRevision:
    """Have a FunctionRevision of a cluster run by what its package means in this process."""
    image, tag = str(spec_of(obj).get("image") or ""), tag_of_revision(obj)
    other = None if says_in_process(obj) else stand_in_for(entries, repository_of(image), tag)
    if other is None:
        return run_by_tag(revision, entries, package_name(obj), tag)
    if strict and (doubt := other.doubt(tag)):
        lost = revision._replace(is_healthy=False, endpoint="", trouble=doubt)
        return lost._replace(origin=Origin.BUILT_IN)
    return run_by(revision, other.entry)


def _place(entry: FunctionEntry, default: FunctionEntry | None) -> tuple[bool, bool, Version]:
    return entry is default, entry.support_at() is Support.SERVED, entry.version


def run_by(revision: FunctionRevision, entry: FunctionEntry) -> FunctionRevision:
    """Give a revision as run by a version that is here."""
    return revision.run_by(entry, builtin_endpoint(entry.function, str(entry.version)))


def built_in_revisions(entries: Registry[FunctionEntry]) -> Iterator[FunctionRevision]:
    """Offer every composition function that is here, under its name and its upstream name."""
    for family in composition_families(entries):
        # The highest number is what a step gets: the default, and of a range what a phase would.
        ordered = sorted(family, key=lambda each: _place(each, family.default))
        for number, entry in enumerate(ordered, 1):
            name = f"{entry.function}-{entry.version}"
            made = run_by(FunctionRevision(entry.function, name, number, is_healthy=True), entry)
            yield made
            prefixed = f"{OWNER}-{entry.function}"
            if prefixed not in entries:
                yield made._replace(function=prefixed, name=f"{OWNER}-{name}")
