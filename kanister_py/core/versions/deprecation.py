"""Deprecation: the support of a version by a release, and rules for the record.

A version is supported, deprecated, removed or planned. The rules concern deprecation windows,
replacements, and versions that read the results of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kanister_py.core.versions.semver import DEFAULT_VERSION, Version

STABLE_ANNOTATION: Final = "kanister-py.io/stable"
_NOTHING: Mapping[str, str] = MappingProxyType({})
WINDOW_IN_RELEASES = 2
"""Minimum number of releases in which a deprecated version still works."""


class Release(NamedTuple):
    """A past or planned release of a package with functions."""

    version: Version
    date: date | None = None


class Read(NamedTuple):
    """A version of a function whose results another version can read."""

    function: str
    version: Version

    def __str__(self) -> str:
        return f"{self.function}@{self.version}"


class Listing(NamedTuple):
    """Entry of the record for one version of a function."""

    since: Version | None = None
    deprecated_in: Version | None = None
    removed_in: Version | None = None
    replacement: Version | None = None
    renamed_args: Mapping[str, str] = _NOTHING
    reads: tuple[Read, ...] = ()
    stands_for: Mapping[str, str] = _NOTHING
    """Packages that the version can replace: ranges of releases by repository pattern."""
    message: str = ""
    annotations: Mapping[str, str] = _NOTHING

    @property
    def releases(self) -> dict[str, Version]:
        """Releases in which the support of the version changes, by the keys of the record."""
        named = zip(("since", "deprecatedIn", "removedIn"), self[:3], strict=True)
        return {key: release for key, release in named if release is not None}


class Support(StrEnum):
    """Support of a version by a release."""

    SERVED = "served"
    DEPRECATED = "deprecated"
    REMOVED = "removed"
    PLANNED = "planned"


def support_of(listing: Listing, release: Version) -> Support:
    """Return how `release` supports the version described by `listing`.

    A version is already deprecated in the release `deprecated_in`, and already refused in
    the release `removed_in`.
    """
    if listing.removed_in is not None and release >= listing.removed_in:
        return Support.REMOVED
    if listing.since is not None and release < listing.since:
        return Support.PLANNED
    if listing.deprecated_in is not None and release >= listing.deprecated_in:
        return Support.DEPRECATED
    return Support.SERVED


# Rules

_Where = tuple[Any, ...]


def wrong_listings(
    listings: Mapping[Version, Listing],
    releases: Sequence[Version],
    release: Version,
    find: Callable[[Read], Listing | None],
) -> Iterator[tuple[_Where, str]]:
    """Yield problems with the windows, replacements and readers of one function's versions.

    A problem is a path (the version, then keys) and a message.
    """
    for version, listing in listings.items():
        yield from _wrong_window(version, listing, releases)
        yield from _wrong_replacement(version, listing, listings, release)
        yield from _wrong_reads(version, listing, releases, find)


def _wrong_window(
    version: Version, listing: Listing, releases: Sequence[Version]
) -> Iterator[tuple[_Where, str]]:
    unknown = {
        key: boundary for key, boundary in listing.releases.items() if boundary not in releases
    }
    for key, missing in unknown.items():
        yield (version, key), f"Release {missing.bare} is not in releases; add it there"
    if unknown:
        return
    if listing.since and listing.deprecated_in and listing.deprecated_in < listing.since:
        yield (version, "deprecatedIn"), f"Deprecated before it exists, since {listing.since.bare}"
    if listing.removed_in is None:
        return
    if listing.deprecated_in is None:
        yield (version, "removedIn"), "Removed without deprecatedIn; deprecate it first"
        return
    window = releases.index(listing.removed_in) - releases.index(listing.deprecated_in)
    if window < WINDOW_IN_RELEASES:
        count = f"{window} release{'s' if window != 1 else ''}"
        due = releases[releases.index(listing.deprecated_in) + WINDOW_IN_RELEASES :]
        hint = f", so {due[0].bare} at the earliest" if due else _NOT_PLANNED
        message = (
            f"Removed {count} after {listing.deprecated_in.bare}, where it was "
            f"deprecated; at least {WINDOW_IN_RELEASES} are due{hint}"
        )
        yield (version, "removedIn"), message


_NOT_PLANNED: Final = "; add the planned releases to releases"


def _wrong_replacement(
    version: Version, listing: Listing, listings: Mapping[Version, Listing], release: Version
) -> Iterator[tuple[_Where, str]]:
    target = listing.replacement
    if target is None:
        if listing.renamed_args:
            yield (version, "renamedArgs"), "renamedArgs requires a replacement; set it"
        return
    here = (version, "replacement")
    if target == version:
        yield here, f"{version} cannot replace itself"
        return
    other = listings.get(target)
    if other is None:
        listed = ", ".join(str(listed_version) for listed_version in sorted(listings))
        yield here, f"Version {target} does not exist; use one of {listed}"
        return
    if _cycle_through(version, listings):
        yield here, f"The replacements of {version} form a cycle"
        return
    if other.removed_in is not None and (
        support_of(other, release) is Support.REMOVED
        or listing.removed_in is None
        or other.removed_in <= listing.removed_in
    ):
        yield here, f"{target} is itself removed, in {other.removed_in.bare}"


def _cycle_through(start: Version, listings: Mapping[Version, Listing]) -> bool:
    seen: set[Version] = set()
    here = listings[start].replacement
    while here is not None and here in listings and here not in seen:
        if here == start:
            return True
        seen.add(here)
        here = listings[here].replacement
    return False


def _wrong_reads(
    version: Version,
    listing: Listing,
    releases: Sequence[Version],
    find: Callable[[Read], Listing | None],
) -> Iterator[tuple[_Where, str]]:
    for index, read in enumerate(listing.reads):
        here = (version, "reads", index)
        try:
            target = find(read)
        except LookupError:
            continue  # its own problems are reported elsewhere
        if target is None:
            yield here, f"{read} does not exist"
            continue
        if listing.removed_in is None or listing.removed_in not in releases:
            continue
        if target.removed_in is None:
            message = (
                f"{version} is removed in {listing.removed_in.bare}, but {read}, which it "
                "reads, is not: its results could no longer be restored"
            )
            yield here, message
        elif target.removed_in in releases:
            window = releases.index(listing.removed_in) - releases.index(target.removed_in)
            if window < WINDOW_IN_RELEASES:
                message = (
                    f"{version} is removed in {listing.removed_in.bare}, too soon after "
                    f"{read}, which it reads and which is removed in {target.removed_in.bare}; "
                    f"a reader must stay at least {WINDOW_IN_RELEASES} releases longer"
                )
                yield here, message


def wrong_stable(
    listings: Mapping[Version, Listing], stable: Version | None, release: Version
) -> Iterator[str]:
    """Yield problems with a function's stable version, or with its absence."""
    if stable is None:
        if DEFAULT_VERSION not in listings and any(
            listing.removed_in is None for listing in listings.values()
        ):
            yield (
                "No version is stable and there is no v0.0.0: phases without a version "
                f'fail; mark one with {STABLE_ANNOTATION}: "true"'
            )
        return
    if stable.is_prerelease:
        yield f"The stable version {stable} is a pre-release"
    listing = listings.get(stable)
    support = support_of(listing, release) if listing is not None else Support.SERVED
    if support is Support.REMOVED:
        yield f"The stable version {stable} is removed"
    elif support is Support.DEPRECATED:
        yield f"The stable version {stable} is deprecated; make another version the stable one"
