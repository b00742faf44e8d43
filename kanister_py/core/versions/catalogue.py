"""What does versions.yaml say, and may it say so?

The file is the record of every version that was ever released. Numbers are never
used twice, so removed versions stay listed. It is read on every start, so it is
read without a library for models; a published schema says the same to editors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date as Date  # noqa: N812 - a field is called date
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import InvalidDocument, InvalidVersion, Problem
from kanister_py.core.objects.documents import (
    Document,
    Path,
    kind_of,
    nearest,
    parse_document,
    text_of_path,
)
from kanister_py.core.versions.deprecation import (
    WINDOW_IN_RELEASES,
    Listing,
    Read,
    Release,
    Support,
    support_of,
)
from kanister_py.core.versions.semver import DEFAULT_VERSION, Version, parse_version

API_VERSION: Final = "kanister-py.io/v1alpha1"
KIND: Final = "FunctionVersions"
STABLE_ANNOTATION: Final = "kanister-py.io/stable"
KINDS: Final = ("Blueprint", "Composition")
_OUR_ANNOTATIONS: Final = (STABLE_ANNOTATION,)


class FunctionRecord(NamedTuple):
    """A function and every version of it that was ever released."""

    kind: str
    versions: Mapping[Version, Listing]
    texts: Mapping[Version, str]
    """How each version is spelt in the file."""

    @property
    def stable(self) -> Version | None:
        return next((version for version in self.versions if _is_stable(self, version)), None)


def _is_stable(record: FunctionRecord, version: Version) -> bool:
    return record.versions[version].annotations.get(STABLE_ANNOTATION) == "true"


class Catalogue(NamedTuple):
    """The whole record."""

    releases: tuple[Release, ...]
    functions: Mapping[str, FunctionRecord]

    def listed(self, function: str) -> Mapping[Version, Listing]:
        """Give the versions of a function; an unknown function has none."""
        record = self.functions.get(function)
        return record.versions if record else {}

    def stable_version(self, function: str) -> Version | None:
        record = self.functions.get(function)
        return record.stable if record else None


class Lifecycle(NamedTuple):
    """The same for one function that somebody else's package brings, counted in its releases."""

    releases: tuple[Release, ...]
    versions: Mapping[Version, Listing]


def parse_catalogue(source: str | bytes, file: str, release: Version) -> Catalogue:
    """Read the record, and refuse it with everything that is wrong with it as of `release`."""
    reader = _Reader(parse_document(source, file))
    reader.known((), ("apiVersion", "kind", "releases", "functions"))
    reader.one_of(("apiVersion",), (API_VERSION,))
    reader.one_of(("kind",), (KIND,))
    releases = reader.releases(("releases",))
    functions = {name: reader.function(("functions", name)) for name in reader.map(("functions",))}
    catalogue = Catalogue(releases, functions)
    for path, message in _wrongs_of(catalogue, release, reader.half_read):
        reader.refuse(path, message)
    reader.finish()
    return catalogue


def parse_lifecycle(written: Any, title: str) -> Lifecycle:
    """Read what the author of a plugin says of the versions of one function."""
    reader = _Reader(Document.of(written, title))
    reader.known((), ("releases", "versions"))
    releases = reader.releases(("releases",))
    versions, _ = reader.versions(("versions",))
    reader.finish()
    return Lifecycle(releases, versions)


class _Reader:
    """Takes a document apart and keeps every problem, so that all are told at once."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._problems: list[Problem] = []
        self.half_read: set[str] = set()
        """The functions of which a version could not be read: what they lack is not known."""

    def refuse(self, path: Path, message: str) -> None:
        self._problems.append(self._document.problem(path, message))

    def finish(self) -> None:
        if self._problems:
            raise InvalidDocument(self._problems)

    def value(self, path: Path) -> Any:
        node = self._document.node_at(path)
        return node.value if node is not None else None

    def map(self, path: Path, *, required: bool = True) -> Mapping[str, Any]:
        found = self.value(path)
        if isinstance(found, dict):
            return found
        if found is not None:
            self.refuse(path, f"Must be a map, found {_shown(found)}")
        elif required:
            self.refuse(path, "Is required")
        return {}

    def known(self, path: Path, keys: Sequence[str]) -> None:
        for key in self.map(path):
            if key not in keys:
                near = nearest(key, keys)
                meant = (
                    f"did you mean {' or '.join(near)}?"
                    if near
                    else f"known here: {', '.join(sorted(keys))}"
                )
                self.refuse((*path, key), f"Unknown key {key!r}; {meant}")

    def text(self, path: Path) -> str:
        found = self.value(path)
        if found is None or isinstance(found, str):
            return found or ""
        self.refuse(path, f"Must be text, found {_shown(found)}")
        return ""

    def one_of(self, path: Path, choices: Sequence[str]) -> str:
        found = self.value(path)
        if isinstance(found, str) and found in choices:
            return found
        wanted = " or ".join(choices)
        said = "Is required" if found is None else f"Must be {wanted}, found {_shown(found)}"
        self.refuse(path, said)
        return choices[0]

    def version(self, path: Path) -> Version | None:
        found = self.value(path)
        if found is None:
            return None
        if not isinstance(found, str):
            self.refuse(path, f"Must be a version, as text such as v0.1.0, found {_shown(found)}")
            return None
        try:
            return parse_version(found)
        except InvalidVersion as error:
            self.refuse(path, error.message)
            return None

    def release(self, path: Path, *, required: bool = False) -> Version | None:
        found = self.version(path)
        if found is None and required and self.value(path) is None:
            self.refuse(path, "Is required")
        if found is not None and found.is_prerelease:
            self.refuse(path, f"Must be a release, found the pre-release {found.bare}")
            return None
        return found

    def releases(self, path: Path) -> tuple[Release, ...]:
        found = []
        for index in range(len(self.list(path, required=True))):
            here = (*path, index)
            self.known(here, ("version", "date"))
            version = self.release((*here, "version"), required=True)
            if version is not None:
                found.append(Release(version, self.date((*here, "date"))))
        return tuple(found)

    def date(self, path: Path) -> Date | None:
        text = self.text(path)
        if not text:
            return None
        try:
            return Date.fromisoformat(text)
        except ValueError:
            self.refuse(path, f"Must be a date such as 2026-11-18, found {text!r}")
            return None

    def list(self, path: Path, *, required: bool = False) -> Sequence[Any]:
        found = self.value(path)
        if isinstance(found, list) and (found or not required):
            return found
        if found is not None and not isinstance(found, list):
            self.refuse(path, f"Must be a list, found {_shown(found)}")
        elif required:
            self.refuse(path, "Is required")
        return ()

    def texts(self, path: Path) -> dict[str, str]:
        return {key: self.text((*path, key)) for key in self.map(path, required=False)}

    def function(self, path: Path) -> FunctionRecord:
        self.known(path, ("kind", "versions"))
        kind = self.one_of((*path, "kind"), KINDS)
        versions, texts = self.versions((*path, "versions"))
        return FunctionRecord(kind, versions, texts)

    def versions(self, path: Path) -> tuple[dict[Version, Listing], dict[Version, str]]:
        versions: dict[Version, Listing] = {}
        texts: dict[Version, str] = {}
        found = self.map(path)
        if not found and self.value(path) is not None:
            self.refuse(path, "Lists no version")
        for text in found:
            here = (*path, text)
            try:
                version = parse_version(text)
            except InvalidVersion as error:
                self.refuse(here, error.message)
                self.half_read.add(str(path[1]))
                self.listing(here)
                continue
            if version in texts:
                self.refuse(here, f"The same version as {texts[version]}")
                continue
            texts[version] = text
            versions[version] = self.listing(here)
        return versions, texts

    def listing(self, path: Path) -> Listing:
        self.known(path, _LISTING_KEYS)
        return Listing(
            since=self.release((*path, "since"), required=True),
            deprecated_in=self.release((*path, "deprecatedIn")),
            removed_in=self.release((*path, "removedIn")),
            replacement=self.version((*path, "replacement")),
            renamed_args=self.texts((*path, "renamedArgs")),
            reads=self.reads((*path, "reads")),
            message=self.text((*path, "message")),
            annotations=self.texts((*path, "annotations")),
        )

    def reads(self, path: Path) -> tuple[Read, ...]:
        found = []
        for index, text in enumerate(self.list(path)):
            name, at, number = str(text).partition("@")
            try:
                if not (name and at and isinstance(text, str)):
                    wanted = "Must be a function and its version, as BackupData@v0.1.0"
                    self.refuse((*path, index), f"{wanted}, found {_shown(text)}")
                else:
                    found.append(Read(name, parse_version(number)))
            except InvalidVersion as error:
                self.refuse((*path, index), error.message)
        return tuple(found)


_LISTING_KEYS: Final = (
    "since",
    "deprecatedIn",
    "removedIn",
    "replacement",
    "renamedArgs",
    "reads",
    "message",
    "annotations",
)


def _shown(value: object) -> str:
    if isinstance(value, dict | list) or value is None:
        return kind_of(value)
    text = repr(value) if isinstance(value, str) else str(value).lower()
    return text if len(text) <= 60 else f"{text[:57]}..."


_Wrong = tuple[Path, str]


def _wrongs_of(
    catalogue: Catalogue, release: Version, half_read: AbstractSet[str]
) -> Iterator[_Wrong]:
    """Find what no part says by itself; nothing is called missing that could not be read."""
    yield from _wrong_releases(catalogue)
    releases = [each.version for each in catalogue.releases]
    find = _reader(catalogue, half_read)
    for name, record in catalogue.functions.items():
        here = ("functions", name, "versions")
        is_whole = name not in half_read
        for where, message in wrong_listings(record.versions, releases, release, find):
            if is_whole or where[1] != "replacement":
                yield (*here, record.texts[where[0]], *where[1:]), message
        stable = [version for version in record.versions if _is_stable(record, version)]
        for version in stable[1:]:
            yield (
                (*here, record.texts[version], "annotations", STABLE_ANNOTATION),
                f"Marked stable, and so is {stable[0]}: one version of a function is stable",
            )
        for version, listing in record.versions.items():
            for key, message in _wrong_annotations(listing):
                yield (*here, record.texts[version], "annotations", key), message
        if is_whole:
            for message in wrong_stable(record.versions, stable[0] if stable else None, release):
                yield here, message


def _reader(catalogue: Catalogue, half_read: AbstractSet[str]) -> Callable[[Read], Listing | None]:
    def find(read: Read) -> Listing | None:
        if read.function in half_read:
            raise LookupError(read.function)
        return catalogue.listed(read.function).get(read.version)

    return find


def _wrong_annotations(listing: Listing) -> Iterator[tuple[str, str]]:
    for key, value in listing.annotations.items():
        if key in _OUR_ANNOTATIONS:
            if value not in ("true", "false"):
                yield key, f'Must be "true" or "false", found {value!r}'
        elif key.startswith("kanister-py.io/"):
            meant = " or ".join(nearest(key, _OUR_ANNOTATIONS) or _OUR_ANNOTATIONS)
            yield key, f"Unknown annotation; did you mean {meant}?"


def _wrong_releases(catalogue: Catalogue) -> Iterator[_Wrong]:
    for index in range(1, len(catalogue.releases)):
        before, here = catalogue.releases[index - 1], catalogue.releases[index]
        if here.version <= before.version:
            yield (
                ("releases", index, "version"),
                (
                    f"Release {here.version.bare} stands after {before.version.bare}; "
                    "list releases from the oldest to the newest, each once"
                ),
            )
        if here.date and before.date and here.date < before.date:
            yield (
                ("releases", index, "date"),
                (
                    f"Release {here.version.bare} is dated {here.date}, before "
                    f"{before.version.bare} on {before.date}"
                ),
            )


_Where = tuple[Any, ...]


def wrong_listings(
    listings: Mapping[Version, Listing],
    releases: Sequence[Version],
    release: Version,
    find: Callable[[Read], Listing | None],
) -> Iterator[tuple[_Where, str]]:
    """Say what is wrong with the windows, replacements and readers of one function's versions.

    Each finding is a place (the version, then a key) and a message.
    """
    for version, listing in listings.items():
        yield from _wrong_window(version, listing, releases)
        yield from _wrong_replacement(version, listing, listings, release)
        yield from _wrong_reads(version, listing, releases, find)


def _wrong_window(
    version: Version, listing: Listing, releases: Sequence[Version]
) -> Iterator[tuple[_Where, str]]:
    named = {
        "since": listing.since,
        "deprecatedIn": listing.deprecated_in,
        "removedIn": listing.removed_in,
    }
    unknown = False
    for key, value in named.items():
        if value is not None and value not in releases:
            unknown = True
            yield (version, key), f"Release {value.bare} is not in releases; add it there"
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
        yield (
            (version, "removedIn"),
            (
                f"Removed {_count(window)} after {listing.deprecated_in.bare}, where it was "
                f"deprecated; at least {WINDOW_IN_RELEASES} are due{_earliest(listing, releases)}"
            ),
        )


def _count(count: int) -> str:
    return f"{count} release" if count == 1 else f"{count} releases"


def _earliest(listing: Listing, releases: Sequence[Version]) -> str:
    assert listing.deprecated_in is not None
    index = releases.index(listing.deprecated_in) + WINDOW_IN_RELEASES
    if index < len(releases):
        return f", so {releases[index].bare} at the earliest"
    return "; add the planned releases to releases"


def _wrong_replacement(
    version: Version, listing: Listing, listings: Mapping[Version, Listing], release: Version
) -> Iterator[tuple[_Where, str]]:
    target = listing.replacement
    if target is None:
        if listing.renamed_args:
            yield (version, "renamedArgs"), "Arguments are renamed for a replacement; name it"
        return
    here = (version, "replacement")
    if target == version:
        yield here, f"{version} cannot replace itself"
        return
    other = listings.get(target)
    if other is None:
        known = ", ".join(str(each) for each in sorted(listings))
        yield here, f"There is no {target}; there are {known}"
        return
    if _cycle_through(version, listings):
        yield here, f"The replacements of {version} lead back to it"
        return
    if other.removed_in is not None and (
        support_of(other, release) is Support.REMOVED
        or listing.removed_in is None
        or other.removed_in <= listing.removed_in
    ):
        yield here, f"{target} is itself removed, in {other.removed_in.bare}"


def _cycle_through(start: Version, listings: Mapping[Version, Listing]) -> bool:
    seen = {start}
    here = listings[start].replacement
    while here is not None and here in listings:
        if here == start:
            return True
        if here in seen:
            return False
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
            continue  # its own problems are told already
        if target is None:
            yield here, f"There is no {read}"
            continue
        if listing.removed_in is None or listing.removed_in not in releases:
            continue
        if target.removed_in is None:
            yield (
                here,
                (
                    f"{version} is removed in {listing.removed_in.bare}, but {read}, which it "
                    "reads, stays: nothing could restore what it writes"
                ),
            )
        elif target.removed_in in releases:
            window = releases.index(listing.removed_in) - releases.index(target.removed_in)
            if window < WINDOW_IN_RELEASES:
                yield (
                    here,
                    (
                        f"{version} is removed in {listing.removed_in.bare}, too soon after "
                        f"{read}, which it reads and which goes in {target.removed_in.bare}; a "
                        f"reader stays at least {WINDOW_IN_RELEASES} releases longer"
                    ),
                )


def wrong_stable(
    listings: Mapping[Version, Listing], stable: Version | None, release: Version
) -> Iterator[str]:
    """Say what is wrong with a function's stable version, or with its absence."""
    if stable is None:
        if DEFAULT_VERSION not in listings and any(
            each.removed_in is None for each in listings.values()
        ):
            yield (
                "No version is stable and there is no v0.0.0: a phase that names no version "
                f'gets none; mark one with {STABLE_ANNOTATION}: "true"'
            )
        return
    if stable.is_prerelease:
        yield f"The stable version {stable} is a pre-release"
    listing = listings.get(stable)
    if listing is not None and support_of(listing, release) is Support.REMOVED:
        yield f"The stable version {stable} is removed"


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
        stable = before.stable_version(name)
        kept = new.get(stable) if stable is not None else None
        moved = stable != after.stable_version(name)
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
