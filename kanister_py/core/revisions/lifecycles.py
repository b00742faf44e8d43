"""Lifecycles in packages: the deprecation and removal of a function's versions.

A package may contain the record of its versions in the format of versions.yaml, as an
annotation or a file. The releases in that record are versions of the package. The record of the
newest installed package applies to all versions. Without a record all versions are supported.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kanister_py.core.errors import InvalidDocument
from kanister_py.core.registry.entries import FunctionRevision, Origin, Source
from kanister_py.core.versions.catalogue import Lifecycle, parse_lifecycle, wrong_releases
from kanister_py.core.versions.deprecation import Listing, Read, wrong_listings
from kanister_py.core.yaml.documents import parse_document

LIFECYCLE: Final = "kanister-py.io/lifecycle"


@lru_cache(maxsize=256)
def read_lifecycle(text: str) -> Lifecycle:
    """Parse the record of a package, or raise `InvalidDocument` with every problem."""
    document = parse_document(text, LIFECYCLE)
    lifecycle = parse_lifecycle(document.value, LIFECYCLE)
    releases = [release.version for release in lifecycle.releases]
    problems = [
        document.problem(path, message) for path, message in wrong_releases(lifecycle.releases)
    ]
    problems += [
        document.problem(("versions", str(where[0]), *where[1:]), message)
        for where, message in wrong_listings(lifecycle.versions, releases, releases[0], _unread)
    ]
    if problems:
        raise InvalidDocument(problems)
    return lifecycle


def _unread(read: Read) -> Listing | None:
    """Skip the check of `reads`, which only applies to functions of blueprints."""
    raise LookupError(read.function)


def with_lifecycles(revisions: Iterable[FunctionRevision]) -> list[FunctionRevision]:
    """Return the revisions of one function, with their `listing` from the newest record."""
    listed = list(revisions)
    newest_record = _newest_with_record(listed)
    if newest_record is None:
        return listed
    newest, lifecycle = newest_record
    assert newest.version is not None  # checked by _newest_with_record
    source = Source(newest.function, newest.version, lifecycle.releases)

    def with_listing(revision: FunctionRevision) -> FunctionRevision:
        listing = lifecycle.versions.get(revision.version) if revision.version else None
        if listing is None or revision.origin is not Origin.PACKAGE:
            return revision
        return revision._replace(listing=listing, source=source)

    return [with_listing(revision) for revision in listed]


def _newest_with_record(
    revisions: Iterable[FunctionRevision],
) -> tuple[FunctionRevision, Lifecycle] | None:
    versioned = [
        revision for revision in revisions if revision.lifecycle and revision.version is not None
    ]
    for revision in sorted(versioned, key=lambda one: (one.version, one.rank), reverse=True):
        try:
            return revision, read_lifecycle(revision.lifecycle)
        except InvalidDocument:
            continue  # reported when the package is installed
    return None
