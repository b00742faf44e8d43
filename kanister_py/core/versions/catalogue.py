"""Record of function versions: every released version, and its support status.

The record is versions.yaml, or the lifecycle in a plugin or package. Version numbers are never
reused, so removed versions stay listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date as Date  # noqa: N812 # a field is called date
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BeforeValidator, Field, GetPydanticSchema
from pydantic_core import core_schema

from kanister_py.core.errors import InvalidDocument, InvalidVersion
from kanister_py.core.models import (
    ClosedModel,
    Items,
    read_model,
    read_partly,
    refusal,
    without_nulls,
)
from kanister_py.core.versions.deprecation import (
    STABLE_ANNOTATION,
    Listing,
    Read,
    Release,
    wrong_listings,
    wrong_stable,
)
from kanister_py.core.versions.semver import Version, parse_request, parse_version
from kanister_py.core.yaml.documents import Document, Path, parse_document, shown

TRAP_ANNOTATION: Final = "kanister-py.io/trap"
"""Annotation with lint's note about surprising behaviour that a version shares with Kanister."""


class FunctionRecord(NamedTuple):
    """A function with all its released versions."""

    kind: str
    versions: Mapping[Version, Listing]
    stable: Version | None = None


class Catalogue(NamedTuple):
    """The whole record."""

    releases: tuple[Release, ...]
    functions: Mapping[str, FunctionRecord]

    def listed(self, function: str) -> Mapping[Version, Listing]:
        """Return the versions of a function, or an empty mapping for an unknown function."""
        record = self.functions.get(function)
        return record.versions if record else {}


class Lifecycle(NamedTuple):
    """The versions of one function in another package, with the releases of that package."""

    releases: tuple[Release, ...]
    versions: Mapping[Version, Listing]


# Models


def _text(pattern: str, parse: Callable[[str], Any], expected: str) -> Any:
    """Build a type for parsed text. `pattern` describes the text in the published schema."""

    def validate(value: object) -> Any:
        if not isinstance(value, str):
            raise refusal(f"Must be {expected}, found {shown(value)}")
        try:
            return parse(value)
        except InvalidVersion as error:
            raise refusal(error.message) from None
        except ValueError:
            raise refusal(f"Must be {expected}, found {shown(value)}") from None

    def schema(_source: object, _handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            validate, json_schema_input_schema=core_schema.str_schema(pattern=pattern or None)
        )

    return GetPydanticSchema(schema)


def _parse_release(text: str) -> Version:
    version = parse_version(text)
    if version.is_prerelease:
        raise refusal(f"Must be a release, found the pre-release {version.bare}")
    return version


def _parse_read(text: str) -> Read:
    name, at, version = text.partition("@")
    if not (name and at):
        raise ValueError(text)
    return Read(name, parse_version(version))


def _check_version(text: str) -> str:
    parse_version(text)
    return text


def _check_range(text: str) -> str:
    parse_request(text)
    return text


_NUMBER: Final = r"(0|[1-9][0-9]*)"
_RELEASE: Final = rf"v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
_VERSION: Final = rf"{_RELEASE}(-[0-9A-Za-z.-]+)?"
_A_VERSION: Final = "a version, as text such as v0.1.0"
_A_DATE: Final = "a date such as 2026-11-18"

_release_text: Final = _text(f"^{_RELEASE}$", _parse_release, _A_VERSION)
_version_text: Final = _text(f"^{_VERSION}$", parse_version, _A_VERSION)
_version_key: Final = _text(f"^{_VERSION}$", _check_version, _A_VERSION)
_range_text: Final = _text("", _check_range, "a range of releases, as ~0.10")
_read_text: Final = _text(
    f"^[A-Za-z][A-Za-z0-9-]*@{_VERSION}$",
    _parse_read,
    "a function and its version, as BackupData@v0.1.0",
)
_date_text: Final = _text("^[0-9]{4}-[0-9]{2}-[0-9]{2}$", Date.fromisoformat, _A_DATE)


class ReleaseModel(ClosedModel):
    """One release, past or planned."""

    version: Annotated[Version, _release_text]
    date: Annotated[Date | None, _date_text] = None


class ListingModel(ClosedModel):
    """Entry for one version of a function."""

    since: Annotated[Version, _release_text] = Field(
        description="The first release with this version"
    )
    deprecated_in: Annotated[Version | None, _release_text] = Field(
        None, description="The first release that warns about this version"
    )
    removed_in: Annotated[Version | None, _release_text] = Field(
        None, description="The first release that refuses this version"
    )
    replacement: Annotated[Version | None, _version_text] = Field(
        None, description="The version to use instead"
    )
    renamed_args: dict[str, str] = Field(
        {}, description="Arguments with another name in the replacement: old to new"
    )
    reads: Items[Annotated[Read, _read_text]] = Field(
        (), description="Versions of functions whose results this version reads"
    )
    stands_for: dict[str, Annotated[str, _range_text]] = Field(
        {},
        description="Packages of others that this version can replace: a pattern of their "
        "repository, and the range of their releases",
    )
    message: str = Field("", description="Message for users of this version")
    annotations: dict[str, str] = Field(
        {},
        description='kanister-py.io/stable: "true" marks the stable version; '
        "kanister-py.io/trap is a note that lint reports",
    )


Listings = Annotated[
    dict[Annotated[str, _version_key], ListingModel],
    Field(min_length=1, json_schema_extra={"additionalProperties": False}),
    BeforeValidator(without_nulls),
]
Releases = Annotated[
    Items[ReleaseModel],
    Field(
        min_length=1,
        description=(
            "Past and planned releases, the oldest first: deprecation windows are counted in these"
        ),
    ),
]


class LifecycleModel(ClosedModel):
    """The versions of one function in a plugin or package."""

    releases: Releases
    versions: Listings


class FunctionModel(ClosedModel):
    """One function."""

    kind: Literal["Blueprint", "Composition"]
    versions: Listings


class RecordModel(ClosedModel):
    """All released versions of all functions, with their support."""

    api_version: Literal["kanister-py.io/v1alpha1"]
    kind: Literal["FunctionVersions"]
    releases: Releases
    functions: Annotated[dict[str, FunctionModel], BeforeValidator(without_nulls)]


# Reading


def parse_lifecycle(written: Any, title: str) -> Lifecycle:
    """Parse the lifecycle of one function in a plugin or package."""
    model = read_model(LifecycleModel, Document.of(written, title))
    return Lifecycle(_releases_of(model.releases), _record_of("", model.versions).versions)


def parse_catalogue(source: str | bytes, file: str, release: Version) -> Catalogue:
    """Parse versions.yaml as of `release`, or raise `InvalidDocument` with every problem."""
    document = parse_document(source, file)
    partial = read_partly(RecordModel, document)
    problems = dict(partial.problems)
    releases = getattr(partial.value, "releases", ())
    functions = getattr(partial.value, "functions", {})
    catalogue = Catalogue(
        _releases_of(releases),
        {name: _record_of(model.kind, model.versions) for name, model in functions.items()},
    )
    for path, message in _problems_of(catalogue, functions, document, release):
        problems.setdefault(path, document.problem(path, message))
    if problems:
        raise InvalidDocument(list(problems.values()))
    return catalogue


def _releases_of(models: tuple[ReleaseModel, ...]) -> tuple[Release, ...]:
    return tuple(Release(model.version, model.date) for model in models)


def _record_of(kind: str, models: Mapping[str, ListingModel]) -> FunctionRecord:
    versions = {parse_version(text): Listing(**dict(model)) for text, model in models.items()}
    stable = [
        version
        for version, listing in versions.items()
        if listing.annotations.get(STABLE_ANNOTATION) == "true"
    ]
    return FunctionRecord(kind, versions, stable[0] if stable else None)


# Rules

_Problem = tuple[Path, str]


def _problems_of(
    catalogue: Catalogue,
    models: Mapping[str, FunctionModel],
    document: Document,
    release: Version,
) -> Iterator[_Problem]:
    """Yield the problems that involve several parts of the record.

    Parts with other problems do not count as missing.
    """
    yield from wrong_releases(catalogue.releases)
    releases = [listed.version for listed in catalogue.releases]

    def find(read: Read) -> Listing | None:
        if not _is_whole(read.function, models, document):
            raise LookupError(read.function)
        return catalogue.listed(read.function).get(read.version)

    for name, record in catalogue.functions.items():
        here = ("functions", name, "versions")
        spelt: dict[Version, str] = {}
        for text in models[name].versions:
            first = spelt.setdefault(parse_version(text), text)
            if first != text:
                yield (*here, text), f"The same version as {first}"
        is_whole = _is_whole(name, models, document)
        for where, message in wrong_listings(record.versions, releases, release, find):
            if is_whole or where[1] != "replacement":
                yield (*here, spelt[where[0]], *where[1:]), message
        for version, listing in record.versions.items():
            for key, message in _wrong_annotations(version, listing, record.stable):
                yield (*here, spelt[version], "annotations", key), message
        if is_whole:
            for message in wrong_stable(record.versions, record.stable, release):
                yield here, message


def _is_whole(name: str, models: Mapping[str, FunctionModel], document: Document) -> bool:
    """Return whether all versions that the document lists for a function could be read."""
    node, model = document.node_at(("functions", name)), models.get(name)
    if node is None or model is None:
        return node is None
    return bool(node.value["versions"].keys() == model.versions.keys())


def _wrong_annotations(
    version: Version, listing: Listing, stable: Version | None
) -> Iterator[tuple[str, str]]:
    for key, value in listing.annotations.items():
        if key == STABLE_ANNOTATION:
            if value not in ("true", "false"):
                yield key, f'Must be "true" or "false", found {value!r}'
            elif value == "true" and version != stable:
                yield key, f"Marked stable, as {stable} is; only one version can be stable"
        elif key.startswith("kanister-py.io/") and key != TRAP_ANNOTATION:
            yield key, f"Unknown annotation; did you mean {STABLE_ANNOTATION}?"


def wrong_releases(releases: Sequence[Release]) -> Iterator[_Problem]:
    """Yield problems with the order of releases."""
    for index, (before, here) in enumerate(pairwise(releases), 1):
        if here.version <= before.version:
            message = (
                f"Release {here.version.bare} is listed after {before.version.bare}; "
                "list releases once, from the oldest to the newest"
            )
            yield ("releases", index, "version"), message
        if here.date and before.date and here.date < before.date:
            previous = f"{before.version.bare} on {before.date}"
            message = f"Release {here.version.bare} is dated {here.date}, before {previous}"
            yield ("releases", index, "date"), message
