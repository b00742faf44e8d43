"""Which versions and ranges are there, and how do they compare?

SemVer 2 with an optional leading `v`, printed with it. Compared as SemVer, never
as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

from semver import Version as SemVer

from kanister_py.core.errors import InvalidRange, InvalidVersion

# What stands in for a pre-release in a key: a release comes after all of its pre-releases.
_RELEASE: tuple[Any, ...] = ((2,),)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """One version. Two spellings of the same version are equal."""

    major: int
    minor: int
    patch: int
    prerelease: str = ""
    key: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "key", (self.major, self.minor, self.patch, _prerelease_key(self.prerelease))
        )

    @property
    def is_prerelease(self) -> bool:
        return bool(self.prerelease)

    @property
    def base(self) -> tuple[int, int, int]:
        return (self.major, self.minor, self.patch)

    def __str__(self) -> str:
        return f"v{self.bare}"

    def __repr__(self) -> str:
        return f"Version({self!s})"

    @property
    def bare(self) -> str:
        """The version without the leading `v`, as releases are written."""
        text = f"{self.major}.{self.minor}.{self.patch}"
        return f"{text}-{self.prerelease}" if self.prerelease else text

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: Version) -> bool:
        return bool(self.key < other.key)

    def __hash__(self) -> int:
        return hash(self.key)


def _prerelease_key(prerelease: str) -> tuple[Any, ...]:
    if not prerelease:
        return _RELEASE
    # Numbers come before words; numbers compare as numbers, words as text.
    return tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in prerelease.split(".")
    )


_PARTIAL = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?\Z")
_MOST_CHARACTERS = 128


def parse_version(text: str) -> Version:
    """Read a version, or say what is wrong with it and what was probably meant."""
    if len(text) > _MOST_CHARACTERS:
        raise InvalidVersion(text[:32] + "...", f"longer than {_MOST_CHARACTERS} characters")
    bare = text[1:] if text[:1] == "v" else text
    try:
        if not bare.isascii():
            raise ValueError(bare)
        parsed = SemVer.parse(bare)
    except (ValueError, TypeError):
        raise _refused(text) from None
    if parsed.build is not None:
        meant = bare.partition("+")[0]
        raise InvalidVersion(text, "build metadata is not allowed", f"write v{meant}")
    return Version(parsed.major, parsed.minor, parsed.patch, parsed.prerelease or "")


def _refused(text: str) -> InvalidVersion:
    partial = _PARTIAL.match(text)
    if partial:
        major, minor = partial.groups()
        full = f"v{int(major)}.{int(minor or 0)}.0"
        loose = f"~{major}.{minor}" if minor else f"~{major}"
        return InvalidVersion(text, "it has too few numbers", f"write {full} or the range {loose}")
    if text[:1] == "V":
        return InvalidVersion(text, "the leading v is small", f"write v{text[1:]}")
    if not text.strip():
        return InvalidVersion(text, "it is empty", "write one like v1.2.3, or leave it out")
    if text != text.strip():
        return InvalidVersion(text, "it has spaces around it", f"write {text.strip()}")
    return InvalidVersion(text, "it is not SemVer", "write one like v1.2.3 or v1.2.3-rc.1")


DEFAULT_VERSION = Version(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Comparator:
    """One condition of a range: an operator, and the bounds it stands for."""

    text: str
    accepts: Callable[[Version], bool]
    named_prerelease: tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Range:
    """Alternatives, each a list of conditions that must all hold.

    A pre-release is inside only where a condition names a pre-release of the same
    numbers, so that nobody gets one unasked.
    """

    text: str
    alternatives: tuple[tuple[Comparator, ...], ...]

    def __contains__(self, version: Version) -> bool:
        return any(
            all(comparator.accepts(version) for comparator in comparators)
            and (
                not version.is_prerelease
                or any(each.named_prerelease == version.base for each in comparators)
            )
            for comparators in self.alternatives
        )

    def __str__(self) -> str:
        return self.text


_COMPARATOR = re.compile(
    r"\s*(?P<operator>>=|<=|!=|=|>|<|~|\^)?\s*"
    r"(?P<version>v?(?P<major>0|[1-9]\d*)(?:\.(?P<minor>0|[1-9]\d*)"
    r"(?:\.(?P<patch>0|[1-9]\d*)(?P<rest>[-+][0-9A-Za-z.+-]*)?)?)?)(?=[\s,]|\Z)"
)
_SEPARATOR = re.compile(r"\s*,\s*|\s+")
_RANGE_MARKS = frozenset("<>=!~^,| ")


def is_range(text: str) -> bool:
    """Tell a text that must be read as a range from one that must be a version."""
    return not _RANGE_MARKS.isdisjoint(text.strip())


def parse_range(text: str) -> Range:
    """Read a range: `= != > >= < <= ~ ^`, space or comma for and, `||` for or."""
    if len(text) > 4 * _MOST_CHARACTERS:
        raise InvalidRange(text[:32] + "...", f"longer than {4 * _MOST_CHARACTERS} characters")
    return Range(text, tuple(_conjunction(text, part) for part in text.split("||")))


def parse_request(text: str) -> Version | Range:
    """Read what a user asks for: a version, or a range of them."""
    return parse_range(text) if is_range(text) else parse_version(text)


def _conjunction(text: str, part: str) -> tuple[Comparator, ...]:
    comparators = []
    position, end = 0, len(part.rstrip())
    while True:
        match = _COMPARATOR.match(part, position)
        if match is None:
            left = part[position:].strip()
            why = f"cannot read {left!r}" if left else "a condition is missing"
            raise InvalidRange(text, why, "write one like >=v0.1.0 <v1.0.0 or ~0.1")
        comparators.append(_comparator(text, match))
        position = match.end()
        if position >= end:
            return tuple(comparators)
        separator = _SEPARATOR.match(part, position)
        assert separator is not None  # the comparator ends before a space, a comma or the end
        position = separator.end()


def _comparator(text: str, match: re.Match[str]) -> Comparator:
    operator = match["operator"] or ""
    numbers = [int(match[name]) for name in ("major", "minor", "patch") if match[name] is not None]
    if len(numbers) == 3:
        low = parse_version(match["version"])
    elif operator:
        low = Version(*numbers, *[0] * (3 - len(numbers)))
    else:
        raise InvalidRange(
            text, f"{match['version']} has too few numbers", f"write ~{match['version']}"
        )
    # The first version past all that the given numbers cover: 1.2 covers 1.2.x.
    past = low if len(numbers) == 3 else _first_after(numbers)
    whole = len(numbers) == 3
    accepts: Callable[[Version], bool]
    match operator:
        case "" | "=":
            accepts = (lambda v: v == low) if whole else (lambda v: low <= v < past)
        case "!=":
            accepts = (lambda v: v != low) if whole else (lambda v: not low <= v < past)
        case ">=":
            accepts = lambda v: v >= low  # noqa: E731 - one line per operator reads as a table
        case "<":
            accepts = lambda v: v < low  # noqa: E731 - one line per operator reads as a table
        case ">":
            accepts = (lambda v: v > low) if whole else (lambda v: v >= past)
        case "<=":
            accepts = (lambda v: v <= low) if whole else (lambda v: v < past)
        case "~":
            tilde = _first_after(numbers[:2])
            accepts = lambda v: low <= v < tilde  # noqa: E731 - one line per operator
        case _:
            caret = _first_after(_caret_prefix(numbers))
            accepts = lambda v: low <= v < caret  # noqa: E731 - one line per operator
    named = low.base if low.is_prerelease else None
    return Comparator(f"{operator}{match['version']}", accepts, named)


def _first_after(numbers: list[int]) -> Version:
    raised = [*numbers[:-1], numbers[-1] + 1]
    return Version(*raised, *[0] * (3 - len(raised)))


def _caret_prefix(numbers: list[int]) -> list[int]:
    """Find the numbers that ^ keeps: up to the first that is not zero, else all that were given."""
    for index, number in enumerate(numbers):
        if number:
            return numbers[: index + 1]
    return numbers
