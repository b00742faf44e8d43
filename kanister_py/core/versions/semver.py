"""Versions and ranges of versions: parsing and comparison.

SemVer 2 with an optional leading `v`, which is always printed. Precedence is that of SemVer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from semver import Version as SemVer

from kanister_py.core.errors import InvalidVersion


class InvalidRange(InvalidVersion):
    """A string is not a valid range of versions."""

    expected = "a range of versions"


class Version(NamedTuple):
    """A version, with or without a leading `v`.

    Releases, by far the most frequent case, are compared by their numbers. Pre-releases are
    compared by the semver package.
    """

    major: int
    minor: int
    patch: int
    prerelease: str = ""

    @property
    def is_prerelease(self) -> bool:
        return bool(self.prerelease)

    def __lt__(self, other: object) -> bool:
        return _compared(self, other) < 0

    def __le__(self, other: object) -> bool:
        return _compared(self, other) <= 0

    def __gt__(self, other: object) -> bool:
        return _compared(self, other) > 0

    def __ge__(self, other: object) -> bool:
        return _compared(self, other) >= 0

    @property
    def base(self) -> tuple[int, int, int]:
        return self[:3]

    @property
    def bare(self) -> str:
        """The version without the leading `v`, the form for releases."""
        text = f"{self.major}.{self.minor}.{self.patch}"
        return f"{text}-{self.prerelease}" if self.prerelease else text

    def __str__(self) -> str:
        return f"v{self.bare}"

    def __repr__(self) -> str:
        return f"Version({self!s})"


def _compared(one: Version, other: object) -> int:
    assert isinstance(other, Version)  # versions are only compared with versions
    if not one[3] and not other[3]:
        left, right = one[:3], other[:3]
        return (left > right) - (left < right)
    return SemVer(*one[:3], one[3] or None).compare(SemVer(*other[:3], other[3] or None))


_PLAIN = re.compile(r"v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)\Z", re.ASCII)
_PARTIAL = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?\Z")
_MOST_CHARACTERS = 128


@lru_cache(maxsize=4096)
def parse_version(text: str) -> Version:
    """Parse a version. Raises `InvalidVersion` with a suggestion."""
    if len(text) > _MOST_CHARACTERS:
        raise InvalidVersion(text[:32] + "...", f"longer than {_MOST_CHARACTERS} characters")
    plain = _PLAIN.match(text)
    if plain:
        return Version(int(plain[1]), int(plain[2]), int(plain[3]))
    bare = text[1:] if text[:1] == "v" else text
    try:
        if not bare.isascii():
            raise ValueError(bare)
        parsed = SemVer.parse(bare)
    except (ValueError, TypeError):
        raise _refused(text) from None
    if parsed.build is not None:
        without_build = bare.partition("+")[0]
        raise InvalidVersion(text, "build metadata is not allowed", f"write v{without_build}")
    return Version(parsed.major, parsed.minor, parsed.patch, parsed.prerelease or "")


def version_or_none(text: str) -> Version | None:
    """Parse a version, or return None if the text is not one, such as a tag."""
    try:
        return parse_version(text) if text else None
    except InvalidVersion:
        return None


def _refused(text: str) -> InvalidVersion:
    partial = _PARTIAL.match(text)
    if partial:
        major, minor = partial.groups()
        full = f"v{int(major)}.{int(minor or 0)}.0"
        loose = f"~{major}.{minor}" if minor else f"~{major}"
        return InvalidVersion(text, "it has too few numbers", f"write {full} or the range {loose}")
    if text[:1] == "V":
        return InvalidVersion(text, "the leading v must be lower case", f"write v{text[1:]}")
    if not text.strip():
        return InvalidVersion(
            text, "it is empty", "write a version such as v1.2.3, or leave it out"
        )
    if text != text.strip():
        return InvalidVersion(text, "it has spaces around it", f"write {text.strip()}")
    return InvalidVersion(text, "it is not SemVer", "write a version such as v1.2.3 or v1.2.3-rc.1")


DEFAULT_VERSION = Version(0, 0, 0)


class Comparator(NamedTuple):
    """One condition of a range: a test of a version against its bounds.

    `past` is the exclusive upper bound, if the condition covers several versions. `named`
    are the numbers of the pre-release in the condition.
    """

    test: Callable[[Version, Version, Version | None], bool]
    low: Version
    past: Version | None
    named: tuple[int, int, int] | None


class Range:
    """A range: alternative lists of conditions that must all be met.

    A pre-release is in the range only if a condition names a pre-release with the same
    numbers, so that pre-releases are never chosen by accident.
    """

    __slots__ = ("alternatives", "text")

    def __init__(self, text: str, alternatives: tuple[tuple[Comparator, ...], ...]) -> None:
        self.text = text
        self.alternatives = alternatives

    def __contains__(self, version: Version) -> bool:
        must_be_named = version.is_prerelease
        for comparators in self.alternatives:
            is_named = not must_be_named
            for test, low, past, named in comparators:
                if not test(version, low, past):
                    break
                is_named = is_named or named == version[:3]
            else:
                if is_named:
                    return True
        return False

    def __str__(self) -> str:
        return self.text


_COMPARATOR = re.compile(
    r"\s*(?:(?P<operator>>=|<=|!=|=|>|<|~|\^)\s*)?"
    r"(?P<version>v?(?P<major>0|[1-9]\d*)(?:\.(?P<minor>0|[1-9]\d*)"
    r"(?:\.(?P<patch>0|[1-9]\d*)(?P<rest>[-+][0-9A-Za-z.+-]*)?)?)?)(?=[\s,]|\Z)",
    re.ASCII,
)
_SEPARATOR = re.compile(r"\s*,\s*|\s+")
_RANGE_MARK = re.compile(r"[<>=!~^,| ]")


def is_range(text: str) -> bool:
    """Return whether a text is a range and not a version."""
    return _RANGE_MARK.search(text.strip()) is not None


def parse_range(text: str) -> Range:
    """Parse a range: `= != > >= < <= ~ ^`, space or comma for and, `||` for or."""
    if len(text) > 4 * _MOST_CHARACTERS:
        raise InvalidRange(text[:32] + "...", f"longer than {4 * _MOST_CHARACTERS} characters")
    return Range(text, tuple(_conjunction(text, part) for part in text.split("||")))


def parse_request(text: str) -> Version | Range:
    """Parse a version or a range of versions."""
    return parse_range(text) if is_range(text) else parse_version(text)


def _conjunction(text: str, part: str) -> tuple[Comparator, ...]:
    comparators = []
    position, end = 0, len(part.rstrip())
    while True:
        match = _COMPARATOR.match(part, position)
        if match is None:
            left = part[position:].strip()
            why = f"cannot read {left!r}" if left else "a condition is missing"
            raise InvalidRange(text, why, "write a range such as >=v0.1.0 <v1.0.0 or ~0.1")
        comparators.append(_comparator(text, match))
        position = match.end()
        if position >= end:
            return tuple(comparators)
        separator = _SEPARATOR.match(part, position)
        assert separator is not None  # the comparator ends before a space, a comma or the end
        position = separator.end()


def _comparator(text: str, match: re.Match[str]) -> Comparator:
    operator, version, major, minor, patch, suffix = match.groups()
    if patch is not None:
        low = parse_version(version) if suffix else Version(int(major), int(minor), int(patch))
        past = None
    elif operator:
        low = Version(int(major), int(minor or 0), 0)
        # Missing numbers match any number: 1.2 covers 1.2.x.
        past = Version(low.major, low.minor + 1, 0) if minor else Version(low.major + 1, 0, 0)
    else:
        raise InvalidRange(text, f"{version} has too few numbers", f"write ~{version}")
    named = low.base if suffix and low.is_prerelease else None
    if operator == "~" and patch is not None:
        past = Version(low.major, low.minor + 1, 0)
    elif operator == "^":
        past = _past_caret(low, minor is not None, patch is not None)
    return Comparator(_TESTS[operator or "="], low, past, named)


def _past_caret(low: Version, has_minor: bool, has_patch: bool) -> Version:
    """Return the upper bound of ^: numbers up to the first one above zero must be equal."""
    if low.major or not has_minor:
        return Version(low.major + 1, 0, 0)
    if low.minor or not has_patch:
        return Version(0, low.minor + 1, 0)
    return Version(0, 0, low.patch + 1)


def _equals(version: Version, low: Version, past: Version | None) -> bool:
    return version == low if past is None else low <= version < past


_TESTS: dict[str, Callable[[Version, Version, Version | None], bool]] = {
    "=": _equals,
    "!=": lambda version, low, past: not _equals(version, low, past),
    ">=": lambda version, low, _past: version >= low,
    "<": lambda version, low, _past: version < low,
    ">": lambda version, low, past: version > low if past is None else version >= past,
    "<=": lambda version, low, past: version <= low if past is None else version < past,
    "~": _equals,
    "^": _equals,
}
