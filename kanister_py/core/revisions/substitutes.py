"""Substitutes: built-in function versions that run in place of packages.

In our own packages, in plugins and in Functions that run in this process, the tag is the version of
a built-in function. Third-party packages have their own version numbers. For them, versions.yaml
lists the releases that a built-in version replaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from kanister_py.core.errors import FunctionVersionRemoved, UsageError
from kanister_py.core.notices import Notice, Severity
from kanister_py.core.registry.choose import Choice, RequestedVersion, choose_version
from kanister_py.core.registry.entries import Family, FunctionEntry, FunctionKind, Registry
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.versions.semver import Range, parse_request, version_or_none

OWNER: Final = "crossplane-contrib"
OURS: Final = "kanister-py"
NO_TAGS: Final = ("", "latest")
"""Tags that stand for the stable version."""


def repository_of(package: str) -> str:
    """Return the repository of a package without host, tag and digest."""
    path = package.partition("@")[0]
    head, slash, last = path.rpartition("/")
    path = f"{head}{slash}{last.partition(':')[0]}"
    host, slash, path_on_host = path.partition("/")
    is_host = "." in host or ":" in host or host == "localhost"
    return path_on_host if slash and is_host else path


def tag_of(package: str) -> str:
    return package.partition("@")[0].rpartition("/")[2].partition(":")[2]


def composition_families(entries: Registry[FunctionEntry]) -> Iterator[Family[FunctionEntry]]:
    return (family for family in entries if family.candidates[0].kind is FunctionKind.COMPOSITION)


def built_in_named(entries: Registry[FunctionEntry], repository: str) -> str:
    """Return the built-in function with the name of a repository, or an empty string."""
    name = repository.rpartition("/")[2]
    return name if name in {family.function for family in composition_families(entries)} else ""


def own_package_function(
    entries: Registry[FunctionEntry], function: str, repository: str, *, is_ours: bool
) -> str:
    """Return the built-in function for a package with our version numbers, or an empty string.

    `is_ours` is set for Functions with the annotation to run in this process. Without a
    repository the name of the Function is used.
    """
    if is_ours or not repository:
        return built_in_named(entries, repository or function)
    if substitute_for(entries, repository, "") is not None:
        return ""
    bare = repository.removeprefix(f"{OURS}/").removeprefix(f"{OWNER}/")
    return "" if "/" in bare else built_in_named(entries, bare)


def choose_built_in(
    entries: Registry[FunctionEntry], function: str, tag: str
) -> Choice[FunctionEntry]:
    """Choose exactly the version that a tag names; without a tag, the stable version.

    Raises the errors of `choose_version` for unknown, planned and removed versions.
    """
    requested = (
        RequestedVersion() if tag in NO_TAGS else RequestedVersion(tag, "the tag of the package")
    )
    try:
        return choose_version(
            entries, function, requested, strict=True, kind=FunctionKind.COMPOSITION
        )
    except FunctionVersionRemoved as gone:
        where = "the tag of spec.package"
        raise FunctionVersionRemoved(
            gone.function, gone.version, gone.removed_in, gone.replacement, where
        ) from None


class Substitute(NamedTuple):
    """A built-in version that runs in place of a third-party package.

    `is_stated` is set if the record lists the release of the package. `ranges` are the
    releases that the versions of the function replace.
    """

    entry: FunctionEntry
    is_stated: bool
    ranges: tuple[str, ...] = ()

    def doubt(self, tag: str) -> str:
        """Return why it may differ from a release, or an empty string if the record lists it."""
        ranges = " and ".join(self.ranges)
        return "" if self.is_stated else f"it replaces {ranges}, not {tag}"


def choose_for_package(
    entries: Registry[FunctionEntry], package: str, tag: str, *, is_ours: bool, strict: bool = False
) -> Choice[FunctionEntry]:
    """Choose the built-in version that runs a package in this process.

    With `is_ours`, the Function has the annotation to run in this process, and its tag is
    one of our versions. With `strict`, releases of other packages that the record does not
    list are refused.
    """
    repository = repository_of(package)
    other = None if is_ours else substitute_for(entries, repository, tag)
    if other is None:
        return choose_built_in(entries, repository.rpartition("/")[2], tag)
    entry, doubt = other.entry, other.doubt(tag)
    if doubt and strict:
        refusal = f"No version of {entry.function} can replace {repository} {tag}: {doubt}"
        raise UsageError(refusal, reason="NoStandIn")
    message = f"{entry.function} {entry.version} is used in place of {repository} {tag}; {doubt}"
    notice = Notice("BuiltInStandsIn", message, Severity.INFO, entry.function, str(entry.version))
    return Choice(entry, f"used in place of {repository}", (notice,) if doubt else ())


def substitute_for(
    entries: Registry[FunctionEntry], repository: str, tag: str
) -> Substitute | None:
    """Return the substitute for a third-party package, or None if no pattern matches."""
    for family in composition_families(entries):
        patterns = [
            (entry, range_)
            for entry in _preferred(family)
            for pattern, range_ in entry.listing.stands_for.items()
            if fnmatchcase(repository, pattern)
        ]
        if not patterns:
            continue
        ranges = tuple(dict.fromkeys(range_ for _, range_ in patterns))
        for entry, releases in patterns:
            if _is_inside(tag, releases):
                return Substitute(entry, True, ranges)
        return Substitute(family.default or family.candidates[0], False, ranges)
    return None


def _preferred(family: Family[FunctionEntry]) -> list[FunctionEntry]:
    """Return the supported versions, the stable one first and deprecated ones last."""
    usable = [
        entry for entry in family if entry.support_at() in (Support.SERVED, Support.DEPRECATED)
    ]
    return sorted(
        usable,
        key=lambda entry: (entry is not family.default, entry.support_at() is Support.DEPRECATED),
    )


def _is_inside(tag: str, range_: str) -> bool:
    if tag in NO_TAGS:
        return True
    version, request = version_or_none(tag), parse_request(range_)
    if version is None:
        return False
    return version in request if isinstance(request, Range) else version == request
