"""Record of function versions: every one that was ever released, and what it is worth.

Read from its checked form, plain data that `judge` made of versions.yaml. Numbers are
never used twice, so removed versions stay listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final, NamedTuple

from kanister_py.core.versions.deprecation import STABLE_ANNOTATION, Listing, Read, Release
from kanister_py.core.versions.semver import Version, parse_version

TRAP_ANNOTATION: Final = "kanister-py.io/trap"
"""What lint notes of a version that is as the original, where that is a trap."""


class FunctionRecord(NamedTuple):
    """A function and every version of it that was ever released."""

    kind: str
    versions: Mapping[Version, Listing]
    stable: Version | None = None


class Catalogue(NamedTuple):
    """The whole record."""

    releases: tuple[Release, ...]
    functions: Mapping[str, FunctionRecord]

    @classmethod
    def of(cls, checked: Mapping[str, Any]) -> Catalogue:
        """Take the record as it was checked; nothing is checked again."""
        functions = {
            name: _function(each["kind"], each["versions"])
            for name, each in checked["functions"].items()
        }
        return cls(_releases(checked["releases"]), functions)

    def listed(self, function: str) -> Mapping[Version, Listing]:
        """Give the versions of a function; an unknown function has none."""
        record = self.functions.get(function)
        return record.versions if record else {}


class Lifecycle(NamedTuple):
    """The same for one function of another package, counted in that package's releases."""

    releases: tuple[Release, ...]
    versions: Mapping[Version, Listing]

    @classmethod
    def of(cls, checked: Mapping[str, Any]) -> Lifecycle:
        return cls(_releases(checked["releases"]), _function("", checked["versions"]).versions)


def _releases(written: list[Mapping[str, str]]) -> tuple[Release, ...]:
    return tuple(
        Release(
            parse_version(each["version"]),
            date.fromisoformat(each["date"]) if "date" in each else None,
        )
        for each in written
    )


def _function(kind: str, written: Mapping[str, Mapping[str, Any]]) -> FunctionRecord:
    versions = {}
    stable = None
    for text, each in written.items():
        version = parse_version(text)
        versions[version] = _listing(each)
        if each.get("annotations", _NOTHING).get(STABLE_ANNOTATION) == "true":
            stable = stable or version
    return FunctionRecord(kind, versions, stable)


_NOTHING: Final[Mapping[str, Any]] = {}
# The field of each key, and how it is read, if not as it is written.
_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any], Any] | None]]] = {
    "since": ("since", parse_version),
    "deprecatedIn": ("deprecated_in", parse_version),
    "removedIn": ("removed_in", parse_version),
    "replacement": ("replacement", parse_version),
    "renamedArgs": ("renamed_args", None),
    "reads": ("reads", lambda reads: tuple(map(_read, reads))),
    "standsFor": ("stands_for", None),
    "message": ("message", None),
    "annotations": ("annotations", None),
}


def _listing(written: Mapping[str, Any]) -> Listing:
    given = {}
    for key, value in written.items():
        field, read = _FIELDS[key]
        given[field] = read(value) if read else value
    return Listing(**given)


def _read(text: str) -> Read:
    name, _, version = text.partition("@")
    return Read(name, parse_version(version))
