"""Lifecycles that packages bring: support of all versions, as the newest package has it.

A package may carry the record of its versions as an annotation, in the words of
versions.yaml, or as such a file. It is counted in the package's own releases, which are
its versions: the newest that is installed counts for each of them. Without one
all are served.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kanister_py.core.errors import InvalidDocument
from kanister_py.core.registry.entries import FunctionRevision, Origin, Source
from kanister_py.core.versions.catalogue import Lifecycle, parse_lifecycle
from kanister_py.core.versions.deprecation import Listing, Read, wrong_listings
from kanister_py.core.yaml.documents import parse_document

LIFECYCLE: Final = "kanister-py.io/lifecycle"


@lru_cache(maxsize=256)
def read_lifecycle(text: str) -> Lifecycle:
    """Read the record of a package, or refuse it with everything that is wrong with it."""
    document = parse_document(text, LIFECYCLE)
    found = parse_lifecycle(document.value, LIFECYCLE)
    releases = [each.version for each in found.releases]
    problems = [
        document.problem(("versions", str(where[0]), *where[1:]), message)
        for where, message in wrong_listings(found.versions, releases, releases[0], _unread)
    ]
    if problems:
        raise InvalidDocument(problems)
    return found


def _unread(read: Read) -> Listing | None:
    """Leave to blueprints what reads the results of what."""
    raise LookupError(read.function)


def with_lifecycles(revisions: Iterable[FunctionRevision]) -> list[FunctionRevision]:
    """Give the revisions of one function with the support of their versions."""
    every = list(revisions)
    judging = _newest_with_record(every)
    if judging is None:
        return every
    newest, lifecycle = judging
    assert newest.version is not None  # or it would not have been chosen
    source = Source(newest.function, newest.version, lifecycle.releases)

    def judged(revision: FunctionRevision) -> FunctionRevision:
        listing = lifecycle.versions.get(revision.version) if revision.version else None
        if listing is None or revision.origin is not Origin.PACKAGE:
            return revision
        return revision._replace(listing=listing, source=source)

    return [judged(each) for each in every]


def _newest_with_record(
    revisions: Iterable[FunctionRevision],
) -> tuple[FunctionRevision, Lifecycle] | None:
    versioned = [each for each in revisions if each.lifecycle and each.version is not None]
    for each in sorted(versioned, key=lambda one: (one.version, one.rank), reverse=True):
        try:
            return each, read_lifecycle(each.lifecycle)
        except InvalidDocument:
            continue  # an error where such a package is installed
    return None
