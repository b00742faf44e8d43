"""Support of a version by a release: served, deprecated, removed, or planned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from types import MappingProxyType

from kanister_py.core.versions.semver import Version
from kanister_py.values import NamedTuple

_NOTHING: Mapping[str, str] = MappingProxyType({})


WINDOW_IN_RELEASES = 2
"""How many releases a deprecated version is still served for, at the least."""


class Release(NamedTuple):
    """One release of the package that brings functions, past or planned."""

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
    """Of packages of others, by a pattern of their repository: the range of their releases."""
    message: str = ""
    annotations: Mapping[str, str] = _NOTHING


class Support(StrEnum):
    """Support of a version by a release."""

    SERVED = "served"
    DEPRECATED = "deprecated"
    REMOVED = "removed"
    PLANNED = "planned"


def support_of(listing: Listing, release: Version) -> Support:
    """Say how `release` treats the version described by `listing`.

    Boundaries belong to the stricter side: a version is refused from the very
    release named in `removed_in`, and deprecated from the one in `deprecated_in`.
    """
    if listing.removed_in is not None and release >= listing.removed_in:
        return Support.REMOVED
    if listing.since is not None and release < listing.since:
        return Support.PLANNED
    if listing.deprecated_in is not None and release >= listing.deprecated_in:
        return Support.DEPRECATED
    return Support.SERVED
