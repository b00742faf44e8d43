"""Record of versions in the gate: read from its YAML, and held to what the last one promised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, ClassVar, Literal

from kanister_py.core.errors import Problem
from kanister_py.core.versions.catalogue import TRAP_ANNOTATION, Catalogue
from kanister_py.core.versions.deprecation import (
    STABLE_ANNOTATION,
    Listing,
    Read,
    wrong_listings,
    wrong_stable,
)
from kanister_py.core.versions.judge import Judged, Listings, Part, Releases
from kanister_py.core.versions.semver import Version, parse_version
from kanister_py.core.yaml.documents import Document, Path, parse_document, text_of_path


def parse_catalogue(source: str | bytes, file: str, release: Version) -> Catalogue:
    """Read versions.yaml itself, not its checked form."""
    return Catalogue.of(checked_record(source, file, release))


def checked_record(source: str | bytes, file: str, release: Version) -> dict[str, Any]:
    """Check the record as of `release`, and give it as plain data; else say all that is wrong."""
    judged = _JudgedRecord(parse_document(source, file))
    for path, message in _wrongs_of(judged, release):
        judged.refuse(path, message)
    return judged.checked()


class FunctionModel(Part):
    """One function."""

    kind: Literal["Blueprint", "Composition"]
    versions: Listings


class RecordModel(Part):
    """Every version of every function that was ever released, and what it is worth."""

    api_version: Literal["kanister-py.io/v1alpha1"]
    kind: Literal["FunctionVersions"]
    releases: Releases
    functions: dict[str, FunctionModel]


class _JudgedRecord(Judged):
    parts: ClassVar = {**Judged.parts, ("functions",): FunctionModel}

    def __init__(self, document: Document) -> None:
        self.half_read: set[str] = set()
        """The functions of which a version could not be read: what they lack is not known."""
        super().__init__(RecordModel, document)

    def _leave_out(self, rest: Any, path: Path) -> None:
        if path[:1] == ("functions",) and len(path) <= len(("functions", "name", "versions", "v")):
            self.half_read.update(str(each) for each in path[1:2])
        super()._leave_out(rest, path)


_Wrong = tuple[Path, str]


def _wrongs_of(judged: _JudgedRecord, release: Version) -> Iterator[_Wrong]:
    """Find what no part says by itself; nothing is called missing that could not be read."""
    catalogue = Catalogue.of({"releases": [], "functions": {}, **judged.data})
    yield from _wrong_releases(catalogue)
    releases = [each.version for each in catalogue.releases]

    def find(read: Read) -> Listing | None:
        if read.function in judged.half_read:
            raise LookupError(read.function)
        return catalogue.listed(read.function).get(read.version)

    for name, record in catalogue.functions.items():
        here = ("functions", name, "versions")
        spelt: dict[Version, str] = {}
        for text in judged.data["functions"][name]["versions"]:
            first = spelt.setdefault(parse_version(text), text)
            if first != text:
                yield (*here, text), f"The same version as {first}"
        is_whole = name not in judged.half_read
        for where, message in wrong_listings(record.versions, releases, release, find):
            if is_whole or where[1] != "replacement":
                yield (*here, spelt[where[0]], *where[1:]), message
        for version, listing in record.versions.items():
            for key, message in _wrong_annotations(version, listing, record.stable):
                yield (*here, spelt[version], "annotations", key), message
        if is_whole:
            for message in wrong_stable(record.versions, record.stable, release):
                yield here, message


def _wrong_annotations(
    version: Version, listing: Listing, stable: Version | None
) -> Iterator[tuple[str, str]]:
    for key, value in listing.annotations.items():
        if key == STABLE_ANNOTATION:
            if value not in ("true", "false"):
                yield key, f'Must be "true" or "false", found {value!r}'
            elif value == "true" and version != stable:
                yield key, f"Marked stable, and so is {stable}: one version of a function is stable"
        elif key.startswith("kanister-py.io/") and key != TRAP_ANNOTATION:
            yield key, f"Unknown annotation; did you mean {STABLE_ANNOTATION}?"


def _wrong_releases(catalogue: Catalogue) -> Iterator[_Wrong]:
    for index, (before, here) in enumerate(pairwise(catalogue.releases), 1):
        if here.version <= before.version:
            message = (
                f"Release {here.version.bare} stands after {before.version.bare}; "
                "list releases from the oldest to the newest, each once"
            )
            yield ("releases", index, "version"), message
        if here.date and before.date and here.date < before.date:
            previous = f"{before.version.bare} on {before.date}"
            message = f"Release {here.version.bare} is dated {here.date}, before {previous}"
            yield ("releases", index, "date"), message


def changes_refused(before: Catalogue, after: Catalogue) -> list[Problem]:
    """Say what the new record may not change of the last released one.

    Released versions stay listed, a stable version that loses its mark is
    deprecated, and what was promised to stay is not removed sooner.
    """
    problems: list[Problem] = []
    for name in before.functions:
        old, new = before.listed(name), after.listed(name)
        for version, listing in old.items():
            here = text_of_path(("functions", name, "versions", str(version)))
            problems.extend(
                Problem("versions.yaml", 0, 0, here, message)
                for message in _changed(version, listing, new.get(version))
            )
        stable = before.functions[name].stable
        kept = new.get(stable) if stable is not None else None
        moved = name in after.functions and stable != after.functions[name].stable
        if moved and kept is not None and kept.deprecated_in is None:
            path = ("functions", name, "versions", str(stable), "deprecatedIn")
            message = f"{stable} was stable in the last release; deprecate it when the mark moves"
            problems.append(Problem("versions.yaml", 0, 0, text_of_path(path), message))
    return problems


def _changed(version: Version, old: Listing, new: Listing | None) -> Iterable[str]:
    if new is None:
        yield f"{version} was released; a number is never used twice, so keep it listed"
        return
    if new.since != old.since:
        yield f"since of {version} was released as {old.since.bare if old.since else 'nothing'}"
    if new.removed_in is not None and (
        old.removed_in is not None and new.removed_in < old.removed_in
    ):
        yield f"{version} was promised until {old.removed_in.bare}; it cannot go sooner"
