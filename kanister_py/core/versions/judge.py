"""Judgement of a record of versions: what its parts may say, and all that is wrong with them.

Made at start for the records that plugins bring, and in the gate for our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import date as Date  # noqa: N812 # a field is called date
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError, core_schema

from kanister_py.core.errors import InvalidDocument, InvalidVersion, Problem, did_you_mean
from kanister_py.core.versions.catalogue import Lifecycle
from kanister_py.core.versions.semver import parse_request, parse_version
from kanister_py.core.yaml.documents import Document, Path, nearest, shown

# What each part may say


def _text(pattern: str, check: Callable[[str], object], wanted: str) -> Any:
    """Make the type of a text of some form, which the published schema knows as a pattern."""

    def checked(value: object) -> str:
        if not isinstance(value, str):
            raise _refusal(f"Must be {wanted}, found {shown(value)}")
        try:
            check(value)
        except InvalidVersion as error:
            raise _refusal(error.message) from None
        except ValueError:
            raise _refusal(f"Must be {wanted}, found {shown(value)}") from None
        return value

    def schema(_source: object, _handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            checked, json_schema_input_schema=core_schema.str_schema(pattern=pattern or None)
        )

    return GetPydanticSchema(schema)


def _refusal(message: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{message}", {"message": message})


def _check_release(text: str) -> None:
    version = parse_version(text)
    if version.is_prerelease:
        raise _refusal(f"Must be a release, found the pre-release {version.bare}")


def _check_read(text: str) -> None:
    name, at, version = text.partition("@")
    if not (name and at):
        raise ValueError(text)
    parse_version(version)


_NUMBER: Final = r"(0|[1-9][0-9]*)"
_RELEASE: Final = rf"v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
_VERSION: Final = rf"{_RELEASE}(-[0-9A-Za-z.-]+)?"
_A_VERSION: Final = "a version, as text such as v0.1.0"

ReleaseText = Annotated[str, _text(f"^{_RELEASE}$", _check_release, _A_VERSION)]
RangeText = Annotated[str, _text("", parse_request, "a range of releases, as ~0.10")]
VersionText = Annotated[str, _text(f"^{_VERSION}$", parse_version, _A_VERSION)]
ReadText = Annotated[
    str,
    _text(
        f"^[A-Za-z][A-Za-z0-9-]*@{_VERSION}$",
        _check_read,
        "a function and its version, as BackupData@v0.1.0",
    ),
]
DateText = Annotated[
    str, _text("^[0-9]{4}-[0-9]{2}-[0-9]{2}$", Date.fromisoformat, "a date such as 2026-11-18")
]


class Part(BaseModel):
    """One part of a record; there is no more in it than it says."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class ReleaseModel(Part):
    """One release, past or planned."""

    version: ReleaseText
    date: DateText = ""


class ListingModel(Part):
    """What the record says of one version of a function."""

    since: ReleaseText = Field(description="The first release with this version")
    deprecated_in: ReleaseText = Field(
        "", description="The first release that warns of this version"
    )
    removed_in: ReleaseText = Field("", description="The first release that refuses this version")
    replacement: VersionText = Field("", description="The version to use instead")
    renamed_args: dict[str, str] = Field(
        {}, description="Arguments that the replacement knows under another name: old to new"
    )
    reads: list[ReadText] = Field(
        [], description="Versions of functions whose results this version reads"
    )
    stands_for: dict[str, RangeText] = Field(
        {},
        description="Packages of others that this version stands for: a pattern of their "
        "repository, and the range of their releases",
    )
    message: str = Field("", description="What a user of this version should know")
    annotations: dict[str, str] = Field(
        {},
        description='kanister-py.io/stable: "true" marks the stable version; '
        "kanister-py.io/trap says what lint notes of it",
    )


Listings = Annotated[
    dict[VersionText, ListingModel],
    Field(min_length=1, json_schema_extra={"additionalProperties": False}),
]
Releases = Annotated[
    list[ReleaseModel],
    Field(
        min_length=1,
        description=(
            "Past and planned releases, the oldest first: deprecation windows are counted in these"
        ),
    ),
]


class LifecycleModel(Part):
    """What the author of a plugin says of the versions of one function."""

    releases: Releases
    versions: Listings


# Judging


def parse_lifecycle(written: Any, title: str) -> Lifecycle:
    """Read what the author of a plugin says of the versions of one function."""
    return Lifecycle.of(Judged(LifecycleModel, Document.of(written, title)).checked())


class Judged:
    """A document that was held against a model: what fits, and what does not.

    What is wrong is left out and the rest looked at again, so that one mistake does
    not hide what is wrong beside it.
    """

    parts: ClassVar[Mapping[Path, type[Part]]] = {
        ("releases",): ReleaseModel,
        ("versions",): ListingModel,
    }
    """The models of what stands in lists and maps, by the keys of those."""

    def __init__(self, model: type[Part], document: Document) -> None:
        self._model = model
        self._document = document
        self._problems: dict[Path, Problem] = {}
        self.data: dict[str, Any] = {}
        rest = {"": deepcopy(document.value)}
        while "" in rest:
            try:
                judged = model.model_validate(rest[""])
            except ValidationError as error:
                self._leave_out_wrong_parts(rest, error)
            else:
                self.data = judged.model_dump(by_alias=True, exclude_unset=True)
                return

    def refuse(self, path: Path, message: str) -> None:
        self._problems.setdefault(path, self._document.problem(path, message))

    def checked(self) -> dict[str, Any]:
        if self._problems:
            raise InvalidDocument(list(self._problems.values()))
        return self.data

    def _leave_out_wrong_parts(self, rest: dict[str, Any], error: ValidationError) -> None:
        # From the end, so that the places in a list stay what they are.
        for each in reversed(error.errors(include_url=False)):
            path = each["loc"]
            if path[-1:] == ("[key]",) and self._document.node_at(path) is None:
                # What is wrong with a key, the library says of a place within it.
                path = path[:-1]
            # What lacks a part that was left out is not to blame for it.
            if all(known[: len(path)] != path for known in self._problems):
                self.refuse(path, self._message(each, path))
            self._leave_out(rest, path[:-1] if each["type"] == "missing" else path)

    def _leave_out(self, rest: Any, path: Path) -> None:
        *way, last = ("", *path)
        for part in way:
            rest = rest.get(part, {}) if isinstance(rest, dict) else rest[part]
        if isinstance(rest, list):
            del rest[int(last)]
        else:
            rest.pop(last, None)

    def _message(self, error: ErrorDetails, path: Path) -> str:
        kind, found = error["type"], error["input"]
        if kind == "missing":
            return "Is required"
        if kind == "too_short":
            return "Must not be empty"
        if kind == "extra_forbidden":
            return _unknown_key(str(path[-1]), self.parts.get(path[-3:-2], self._model))
        if kind == "literal_error":
            return f"Must be {error['ctx']['expected'].replace(chr(39), '')}, found {shown(found)}"
        wanted = _KINDS.get(kind)
        return f"Must be {wanted}, found {shown(found)}" if wanted else error["msg"]


_KINDS: Final = {
    "string_type": "text",
    "dict_type": "a map",
    "model_type": "a map",
    "list_type": "a list",
}


def _unknown_key(key: str, part: type[Part]) -> str:
    known = [field.alias or name for name, field in part.model_fields.items()]
    meant = did_you_mean(nearest(key, known)) or f"; known here: {', '.join(sorted(known))}"
    return f"Unknown key {key!r}{meant}"
