"""Stand-ins: versions here that answer for packages, by our numbers or by those of others.

The tag of a Function that runs in this process, of packages of ours and of plugins is one of
our versions. Packages of others keep their own: the record has the releases of theirs that a
version stands for.
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
"""Tags that follow the stable version."""


def repository_of(package: str) -> str:
    """Give the path of a package without its host, tag and digest."""
    path = package.partition("@")[0]
    head, slash, last = path.rpartition("/")
    path = f"{head}{slash}{last.partition(':')[0]}"
    host, slash, rest = path.partition("/")
    is_host = "." in host or ":" in host or host == "localhost"
    return rest if slash and is_host else path


def tag_of(package: str) -> str:
    return package.partition("@")[0].rpartition("/")[2].partition(":")[2]


def composition_families(entries: Registry[FunctionEntry]) -> Iterator[Family[FunctionEntry]]:
    return (family for family in entries if family.candidates[0].kind is FunctionKind.COMPOSITION)


def built_in_named(entries: Registry[FunctionEntry], repository: str) -> str:
    """Say which function here a repository is called after; empty if none."""
    name = repository.rpartition("/")[2]
    return name if name in {each.function for each in composition_families(entries)} else ""


def own_package_function(
    entries: Registry[FunctionEntry], function: str, repository: str, *, is_ours: bool
) -> str:
    """Name the function here that a package with our version numbers is; empty if it is none.

    `is_ours`: it is to run in this process. Without a repository, the Function's name tells.
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
    """Choose the version that a tag of ours names, and no other; without a tag, the stable one.

    Raises what `choose_version` does for one that is unknown, planned or removed.
    """
    asked = (
        RequestedVersion() if tag in NO_TAGS else RequestedVersion(tag, "the tag of the package")
    )
    try:
        return choose_version(entries, function, asked, strict=True, kind=FunctionKind.COMPOSITION)
    except FunctionVersionRemoved as gone:
        where = "the tag of spec.package"
        raise FunctionVersionRemoved(
            gone.function, gone.version, gone.removed_in, gone.replacement, where
        ) from None


class Substitute(NamedTuple):
    """A version here that is taken for the package of others.

    `is_stated`: the record says that it stands for that very release. `ranges` are the
    releases that any version of it stands for.
    """

    entry: FunctionEntry
    is_stated: bool
    ranges: tuple[str, ...] = ()

    def doubt(self, tag: str) -> str:
        """Doubt that it is like a release, unless the record says so; empty without doubt."""
        ranges = " and ".join(self.ranges)
        return "" if self.is_stated else f"it answers for {ranges}, not for {tag}"


def choose_for_package(
    entries: Registry[FunctionEntry], package: str, tag: str, *, is_ours: bool, strict: bool = False
) -> Choice[FunctionEntry]:
    """Choose what runs a package in this process.

    `is_ours`: its Function says so itself, and then its tag is our number. Where everything
    runs in this process, packages of others keep theirs; `strict` refuses a release of them
    that no version is known to stand for.
    """
    repository = repository_of(package)
    other = None if is_ours else substitute_for(entries, repository, tag)
    if other is None:
        return choose_built_in(entries, repository.rpartition("/")[2], tag)
    entry, doubt = other.entry, other.doubt(tag)
    if doubt and strict:
        refusal = f"No version of {entry.function} stands in for {repository} {tag}: {doubt}"
        raise UsageError(refusal, reason="NoStandIn")
    message = f"{entry.function} {entry.version} stands in for {repository} {tag}; {doubt}"
    notice = Notice("BuiltInStandsIn", message, Severity.INFO, entry.function, str(entry.version))
    return Choice(entry, f"stands in for {repository}", (notice,) if doubt else ())


def substitute_for(
    entries: Registry[FunctionEntry], repository: str, tag: str
) -> Substitute | None:
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
                return Substitute(entry, True, ranges)
        return Substitute(family.default or family.candidates[0], False, ranges)
    return None


def _preferred(family: Family[FunctionEntry]) -> list[FunctionEntry]:
    """Give the versions that serve, the stable one first, deprecated ones last."""
    usable = [each for each in family if each.support_at() in (Support.SERVED, Support.DEPRECATED)]
    return sorted(
        usable,
        key=lambda each: (each is not family.default, each.support_at() is Support.DEPRECATED),
    )


def _is_inside(tag: str, wanted: str) -> bool:
    if tag in NO_TAGS:
        return True
    version, request = version_or_none(tag), parse_request(wanted)
    if version is None:
        return False
    return version in request if isinstance(request, Range) else version == request
