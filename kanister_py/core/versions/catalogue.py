"""What does versions.yaml say, and may it say so?

The file is the record of every version that was ever released. Numbers are never
used twice, so removed versions stay listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date as Date  # noqa: N812 - a field is called date
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)

from kanister_py.core.errors import InvalidDocument, InvalidVersion, Problem
from kanister_py.core.objects.documents import (
    Document,
    nearest,
    parse_document,
    text_of_path,
)
from kanister_py.core.objects.model import Record, problems_of
from kanister_py.core.versions.deprecation import (
    WINDOW_IN_RELEASES,
    Listing,
    Read,
    Release,
    Support,
    support_of,
)
from kanister_py.core.versions.semver import Version, parse_version

API_VERSION: Final = "kanister-py.io/v1alpha1"
KIND: Final = "FunctionVersions"
STABLE_ANNOTATION: Final = "kanister-py.io/stable"
_OUR_ANNOTATIONS = frozenset({STABLE_ANNOTATION})

_NUMBER = "(0|[1-9][0-9]*)"
_VERSION_PATTERN = rf"^v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-[0-9A-Za-z.-]+)?$"


def _version_of(value: Any) -> Version:
    if isinstance(value, Version):
        return value
    if not isinstance(value, str):
        raise ValueError(f"Must be a version in quotes, such as 'v0.1.0', found {value!r}")
    try:
        return parse_version(value)
    except InvalidVersion as error:
        raise ValueError(str(error)) from None


def _release_of(value: Any) -> Version:
    version = _version_of(value)
    if version.is_prerelease:
        raise ValueError(f"A release of the record is no pre-release, found {version.bare}")
    return version


def _read_of(value: Any) -> Read:
    if isinstance(value, Read):
        return value
    name, at, version = str(value).partition("@")
    if not (name and at):
        raise ValueError(
            f"Must be a function and its version, as BackupData@v0.1.0, found {value!r}"
        )
    return Read(name, _version_of(version))


def _date_of(value: Any) -> Any:
    # A date in YAML stays text, as everywhere in Kubernetes.
    if not isinstance(value, str):
        return value
    try:
        return Date.fromisoformat(value)
    except ValueError:
        raise ValueError(f"Must be a date such as 2026-11-18, found {value!r}") from None


_VERSION_SCHEMA = WithJsonSchema({"type": "string", "pattern": _VERSION_PATTERN})
VersionField = Annotated[
    Version, BeforeValidator(_version_of), PlainSerializer(str), _VERSION_SCHEMA
]
ReleaseField = Annotated[
    Version,
    BeforeValidator(_release_of),
    PlainSerializer(lambda version: version.bare),
    _VERSION_SCHEMA,
]
ReadField = Annotated[
    Read,
    BeforeValidator(_read_of),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": r"^[A-Za-z][A-Za-z0-9-]*@v?[0-9].*$"}),
]


class ReleaseRecord(Record):
    """A release of the package: deprecation windows are counted in these."""

    version: ReleaseField
    date: Annotated[Date | None, BeforeValidator(_date_of)] = None


def releases_of(records: Sequence[ReleaseRecord]) -> tuple[Release, ...]:
    return tuple(Release(each.version, each.date) for each in records)


class VersionRecord(Record):
    """What the record says of one version of a function."""

    since: ReleaseField = Field(description="The first release with this version")
    deprecated_in: ReleaseField | None = Field(
        default=None, description="The first release that warns of this version"
    )
    removed_in: ReleaseField | None = Field(
        default=None, description="The first release that refuses this version"
    )
    replacement: VersionField | None = Field(default=None, description="The version to use instead")
    renamed_args: dict[str, str] = Field(
        default_factory=dict,
        description="Arguments that the replacement knows under another name: old to new",
    )
    reads: list[ReadField] = Field(
        default_factory=list, description="Versions of functions whose results this one reads"
    )
    message: str = Field(default="", description="What a user of this version should know")
    annotations: dict[str, str] = Field(
        default_factory=dict, description='kanister-py.io/stable: "true" marks the stable version'
    )

    def listing(self) -> Listing:
        return Listing(
            since=self.since,
            deprecated_in=self.deprecated_in,
            removed_in=self.removed_in,
            replacement=self.replacement,
            renamed_args=self.renamed_args,
            reads=tuple(self.reads),
            message=self.message,
            annotations=self.annotations,
        )

    @property
    def is_stable(self) -> bool:
        return self.annotations.get(STABLE_ANNOTATION) == "true"


VersionText = Annotated[str, AfterValidator(lambda text: str(_version_of(text)) and text)]


class FunctionRecord(Record):
    """A function and every version of it that was ever released."""

    kind: Literal["Blueprint", "Composition"]
    versions: dict[VersionText, VersionRecord] = Field(min_length=1)


class Lifecycle(Record):
    """The same for one function that somebody else's package brings, counted in its releases."""

    releases: list[ReleaseRecord] = Field(min_length=1)
    versions: dict[VersionText, VersionRecord]

    def listed(self) -> dict[Version, Listing]:
        return {parse_version(text): each.listing() for text, each in self.versions.items()}


class Catalogue(Record):
    """The whole record."""

    api_version: Literal["kanister-py.io/v1alpha1"]
    kind: Literal["FunctionVersions"]
    releases: list[ReleaseRecord] = Field(min_length=1)
    functions: dict[str, FunctionRecord]

    def listed(self, function: str) -> dict[Version, Listing]:
        """Give the versions of a function; an unknown function has none."""
        record = self.functions.get(function)
        if record is None:
            return {}
        return {parse_version(text): each.listing() for text, each in record.versions.items()}

    def stable_version(self, function: str) -> Version | None:
        record = self.functions.get(function)
        if record is None:
            return None
        return next(
            (parse_version(v) for v, each in record.versions.items() if each.is_stable), None
        )

    def release_list(self) -> tuple[Release, ...]:
        return releases_of(self.releases)


def parse_catalogue(source: str | bytes, file: str, release: Version) -> Catalogue:
    """Read the record, and refuse it with everything that is wrong with it as of `release`."""
    document = parse_document(source, file)
    catalogue, problems, unread = _readable_part(document)
    if catalogue is not None:
        problems += [
            document.problem(path, message)
            for path, message in _wrongs_of(catalogue, release, unread)
        ]
    if catalogue is None or problems:
        raise InvalidDocument(problems)
    return catalogue


def _readable_part(document: Document) -> tuple[Catalogue | None, list[Problem], frozenset[str]]:
    """Read what can be read, so that one bad key does not hide what is wrong elsewhere.

    Gives the record without the functions that hold a problem, the problems, and
    the names of those functions.
    """
    try:
        return Catalogue.model_validate(document.value), [], frozenset()
    except ValidationError as error:
        problems = problems_of(Catalogue, error, document)
        places = [each["loc"] for each in error.errors(include_url=False)]
    unread = frozenset(str(place[1]) for place in places if place[0] == "functions" and place[1:])
    if any(place[0] != "functions" or not place[1:] for place in places if place):
        return None, problems, unread
    functions = {
        name: each for name, each in document.value["functions"].items() if name not in unread
    }
    rest = Catalogue.model_validate({**document.value, "functions": functions})
    return rest, problems, unread


_Wrong = tuple[tuple[str | int, ...], str]


def _wrongs_of(catalogue: Catalogue, release: Version, unread: frozenset[str]) -> Iterator[_Wrong]:
    yield from _wrong_releases(catalogue)
    releases = [each.version for each in catalogue.releases]
    find = _reader(catalogue, unread)
    for name, record in catalogue.functions.items():
        here = ("functions", name, "versions")
        texts: dict[Version, str] = {}
        for text in record.versions:
            version = parse_version(text)
            if version in texts:
                yield (*here, text), f"The same version as {texts[version]}"
            texts.setdefault(version, text)
        records = {version: record.versions[text] for version, text in texts.items()}
        listings = {version: each.listing() for version, each in records.items()}
        for where, message in wrong_listings(listings, releases, release, find):
            yield (*here, texts[where[0]], *where[1:]), message
        stable = [version for version, each in records.items() if each.is_stable]
        for version in stable[1:]:
            yield (
                (*here, texts[version], "annotations", STABLE_ANNOTATION),
                f"Marked stable, and so is {stable[0]}: one version of a function is stable",
            )
        for version, each in records.items():
            for key, message in _wrong_annotations(each):
                yield (*here, texts[version], "annotations", key), message
        for message in wrong_stable(listings, stable[0] if stable else None, release):
            yield here, message


def _reader(catalogue: Catalogue, unread: frozenset[str]) -> Callable[[Read], Listing | None]:
    def find(read: Read) -> Listing | None:
        if read.function in unread:
            raise LookupError(read.function)
        return catalogue.listed(read.function).get(read.version)

    return find


def _wrong_annotations(record: VersionRecord) -> Iterator[tuple[str, str]]:
    for key, value in record.annotations.items():
        if key in _OUR_ANNOTATIONS:
            if value not in ("true", "false"):
                yield key, f'Must be "true" or "false", found {value!r}'
        elif key.startswith("kanister-py.io/"):
            near = nearest(key, sorted(_OUR_ANNOTATIONS))
            meant = " or ".join(near or sorted(_OUR_ANNOTATIONS))
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
        default = Version(0, 0, 0)
        if default not in listings and any(each.removed_in is None for each in listings.values()):
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
        moved = stable is not None and stable != after.stable_version(name)
        if moved and stable in new and new[stable].deprecated_in is None:
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


def schema_of_catalogue() -> dict[str, Any]:
    """Give the JSON schema of versions.yaml, for editors and other tools."""
    schema = Catalogue.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://kanister-py.io/schemas/versions.schema.json",
        **schema,
        "title": "versions.yaml of kanister_py",
    }
