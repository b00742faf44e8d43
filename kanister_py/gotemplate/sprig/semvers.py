"""Versions and constraints with the rules of the sprig releases for blueprints and compositions.

These rules are for templates only: they are looser than SemVer (`1.2` is a version) and
differ between the two tables of functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.types import (
    INT64,
    TYPES_BY_NAME,
    UINT64,
    GoType,
    pointer_to,
    struct_type,
)
from kanister_py.gotemplate.values import Int64, Uint64

_SUFFIX = (
    r"(-([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?"
    r"(\+([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?"
)
# These patterns are not compiled here because few templates need them.
_VERSION = rf"v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?{_SUFFIX}"
_PART = r"[0-9|x|X|\*]+"
_CONSTRAINED = rf"v?({_PART})(\.{_PART})?(\.{_PART})?{_SUFFIX}"
_RANGE = rf"\s*({_CONSTRAINED})\s+-\s+({_CONSTRAINED})\s*"

# Longer operators come before their prefixes.
_OPERATORS = r"!=|>=|=>|<=|=<|~>|=|>|<|~|\^|"
_ONE = rf"\s*({_OPERATORS})\s*({_CONSTRAINED})\s*"


class SemanticVersion:
    """Result of the function `semver`."""

    __slots__ = ("major", "metadata", "minor", "original", "patch", "pre")
    go_type: GoType

    def __init__(self, text: str, rules: Rules) -> None:
        match = re.fullmatch(_VERSION, text)
        if match is None:
            raise GoError(rules.not_a_version)
        self.original = text
        self.major = rules.segment(match.group(1))
        self.minor = rules.segment((match.group(2) or ".0")[1:])
        self.patch = rules.segment((match.group(3) or ".0")[1:])
        self.pre = match.group(5) or ""
        self.metadata = match.group(7) or ""

    def go_string(self) -> str:
        pre = f"-{self.pre}" if self.pre else ""
        metadata = f"+{self.metadata}" if self.metadata else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{metadata}"

    def compare(self, other: SemanticVersion) -> int:
        one = (self.major, self.minor, self.patch)
        two = (other.major, other.minor, other.patch)
        if one != two:
            return 1 if one > two else -1
        if self.pre == other.pre:
            return 0
        if not self.pre or not other.pre:
            return 1 if not self.pre else -1
        return compare_prereleases(self.pre, other.pre)


def compare_prereleases(one: str, other: str) -> int:
    """Compare pre-releases part by part: numbers are lower than words, and prefixes come first."""
    left, right = one.split("."), other.split(".")
    for position in range(max(len(left), len(right))):
        this = left[position] if position < len(left) else ""
        that = right[position] if position < len(right) else ""
        if this == that:
            continue
        if not this or not that:
            return 1 if this else -1
        if this.isdigit() and that.isdigit():
            return 1 if int(this) > int(that) else -1
        if this.isdigit() or that.isdigit():
            return 1 if that.isdigit() else -1
        return 1 if this > that else -1
    return 0


class _Constraint(NamedTuple):
    """One comparison; dirty if a part of its version is missing or is an x."""

    operator: str
    version: SemanticVersion
    is_dirty: bool
    is_minor_dirty: bool
    is_patch_dirty: bool


_IS_X = frozenset({"x", "X", "*"})


class Rules:
    """Rules of one major version of the library for versions and constraints."""

    limit: int
    parser_of_numbers: str
    not_a_version = "invalid semantic version"
    not_a_segment = "error parsing version segment"
    not_a_constraint = "constraint parser error"
    version_class: type[SemanticVersion]

    def parse(self, text: str) -> SemanticVersion:
        return self.version_class(text, self)

    def segment(self, text: str) -> int:
        """Parse one of the three numbers of a version."""
        digits = text.lstrip("0")
        if len(digits) > 20 or int(digits or "0") > self.limit:
            raise GoError(
                f"{self.not_a_segment}: strconv.{self.parser_of_numbers}: "
                f'parsing "{text}": value out of range'
            )
        return int(digits or "0")

    def parse_constraints(self, text: str) -> list[list[_Constraint]]:
        raise NotImplementedError

    def holds(self, constraint: _Constraint, version: SemanticVersion) -> bool:
        raise NotImplementedError

    def compare(self, constraints: str, version: str) -> bool:
        alternatives = self.parse_constraints(constraints)
        parsed = self.parse(version)
        return any(self.all_hold(alternative, parsed) for alternative in alternatives)

    def all_hold(self, constraints: list[_Constraint], version: SemanticVersion) -> bool:
        raise NotImplementedError

    def _parse_one(self, text: str, *, is_patch_optional: bool) -> _Constraint:
        match = re.fullmatch(_ONE, text, re.ASCII)
        if match is None:
            raise GoError(f"improper constraint: {text}")
        version = match.group(2)
        major, minor, patch = match.group(3), match.group(4) or "", match.group(5) or ""
        pre = match.group(6) or ""
        is_minor_dirty = is_patch_dirty = is_dirty = False
        if major in _IS_X:
            is_dirty = True
            version = f"0.0.0{pre}" if is_patch_optional else "0.0.0"
        elif not minor or minor[1:] in _IS_X:
            is_minor_dirty = is_dirty = True
            version = f"{major}.0.0{pre}"
        elif patch[1:] in _IS_X or (is_patch_optional and not patch):
            is_patch_dirty = is_dirty = True
            version = f"{major}{minor}.0{pre}"
        try:
            parsed = self.parse(version)
        except GoError:
            raise GoError(self.not_a_constraint) from None
        return _Constraint(match.group(1), parsed, is_dirty, is_minor_dirty, is_patch_dirty)


def _with_ranges(text: str, form: str) -> str:
    """Replace `1.2 - 1.4` by comparisons with both ends."""
    for match in re.finditer(_RANGE, text, re.ASCII):
        text = text.replace(match.group(), form.format(match.group(1), match.group(9)), 1)
    return text


def _tilde(constraint: _Constraint, version: SemanticVersion) -> bool:
    bound = constraint.version
    if version.compare(bound) < 0:
        return False
    is_zero = bound.major == bound.minor == bound.patch == 0
    if is_zero and not constraint.is_minor_dirty and not constraint.is_patch_dirty:
        return True
    return version.major == bound.major and (
        version.minor == bound.minor or constraint.is_minor_dirty
    )


def _tilde_or_equal(constraint: _Constraint, version: SemanticVersion) -> bool:
    if constraint.is_dirty:
        return _tilde(constraint, version)
    return version.compare(constraint.version) == 0


class BlueprintRules(Rules):
    limit = (1 << 63) - 1
    parser_of_numbers = "ParseInt"
    not_a_version = "Invalid Semantic Version"
    not_a_segment = "Error parsing version segment"
    not_a_constraint = "constraint Parser Error"

    def all_hold(self, constraints: list[_Constraint], version: SemanticVersion) -> bool:
        return all(self._allows(constraint, version) for constraint in constraints)

    def _allows(self, constraint: _Constraint, version: SemanticVersion) -> bool:
        is_dirty_or_ordered = constraint.operator != "!=" or constraint.is_dirty
        # Pre-releases only match constraints that name a pre-release.
        if is_dirty_or_ordered and version.pre and not constraint.version.pre:
            return False
        return self.holds(constraint, version)

    def parse_constraints(self, text: str) -> list[list[_Constraint]]:
        text = _with_ranges(text, ">= {}, <= {}")
        return [
            [self._parse_one(comparison, is_patch_optional=False) for comparison in part.split(",")]
            for part in text.split("||")
        ]

    def holds(self, constraint: _Constraint, version: SemanticVersion) -> bool:
        bound = constraint.version
        order = version.compare(bound)
        match constraint.operator:
            case "" | "=":
                return _tilde_or_equal(constraint, version)
            case "!=":
                return self._differs(constraint, version)
            case ">":
                return order > 0
            case ">=" | "=>":
                return order >= 0
            case "<":
                return self._is_below(constraint, version) if constraint.is_dirty else order < 0
            case "<=" | "=<":
                return self._is_below(constraint, version) if constraint.is_dirty else order <= 0
            case "^":
                return order >= 0 and version.major == bound.major
            case _:
                return _tilde(constraint, version)

    @staticmethod
    def _is_below(constraint: _Constraint, version: SemanticVersion) -> bool:
        bound = constraint.version
        return version.major <= bound.major and (
            version.minor <= bound.minor or constraint.is_minor_dirty
        )

    @staticmethod
    def _differs(constraint: _Constraint, version: SemanticVersion) -> bool:
        bound = constraint.version
        if not constraint.is_dirty:
            return version.compare(bound) != 0
        if bound.major != version.major:
            return True
        return bound.minor != version.minor and not constraint.is_minor_dirty


_MANY = (
    rf"\s*(?:{_OPERATORS})\s*(?:{_CONSTRAINED})\s*"
    rf"(?:(?:\s+|,\s*)(?:{_OPERATORS})\s*(?:{_CONSTRAINED})\s*)*"
)
_EACH = rf"(?:{_OPERATORS})\s*(?:{_CONSTRAINED})"


class CompositionRules(Rules):
    limit = (1 << 64) - 1
    parser_of_numbers = "ParseUint"

    def all_hold(self, constraints: list[_Constraint], version: SemanticVersion) -> bool:
        # Pre-releases only match if at least one of the constraints names a pre-release.
        if version.pre and not any(constraint.version.pre for constraint in constraints):
            return False
        return all(self.holds(constraint, version) for constraint in constraints)

    def parse(self, text: str) -> SemanticVersion:
        version = super().parse(text)
        for part in version.pre.split("."):
            if len(part) > 1 and part.isdigit() and part[0] == "0":
                raise GoError("version segment starts with 0")
        return version

    def parse_constraints(self, text: str) -> list[list[_Constraint]]:
        alternatives = []
        for part in _with_ranges(text, ">= {}, <= {} ").split("||"):
            if re.fullmatch(_MANY, part, re.ASCII) is None:
                raise GoError(f"improper constraint: {part}")
            comparisons = [match.group() for match in re.finditer(_EACH, part, re.ASCII)] or [part]
            alternatives.append(
                [self._parse_one(comparison, is_patch_optional=True) for comparison in comparisons]
            )
        return alternatives

    def holds(self, constraint: _Constraint, version: SemanticVersion) -> bool:
        order = version.compare(constraint.version)
        match constraint.operator:
            case "" | "=":
                return _tilde_or_equal(constraint, version)
            case "!=":
                return self._differs(constraint, version)
            case ">":
                return self._is_above(constraint, version)
            case ">=" | "=>":
                return order >= 0
            case "<":
                return order < 0
            case "<=" | "=<":
                return self._is_not_above(constraint, version)
            case "^":
                return order >= 0 and self._caret(constraint, version)
            case _:
                return _tilde(constraint, version)

    @staticmethod
    def _differs(constraint: _Constraint, version: SemanticVersion) -> bool:
        bound = constraint.version
        if bound.major != version.major:
            return True
        if bound.minor != version.minor and not constraint.is_minor_dirty:
            return True
        if constraint.is_minor_dirty:
            return False
        if bound.patch != version.patch and not constraint.is_patch_dirty:
            return True
        if constraint.is_patch_dirty:
            return bool(version.pre or bound.pre) and version.pre != bound.pre
        return version.compare(bound) != 0

    @staticmethod
    def _is_above(constraint: _Constraint, version: SemanticVersion) -> bool:
        bound = constraint.version
        if constraint.is_dirty and version.major != bound.major:
            return version.major > bound.major
        if constraint.is_minor_dirty:
            return False
        if constraint.is_patch_dirty:
            return version.minor > bound.minor
        return version.compare(bound) > 0

    @staticmethod
    def _is_not_above(constraint: _Constraint, version: SemanticVersion) -> bool:
        bound = constraint.version
        if not constraint.is_dirty:
            return version.compare(bound) <= 0
        if version.major != bound.major:
            return version.major < bound.major
        return version.minor <= bound.minor or constraint.is_minor_dirty

    @staticmethod
    def _caret(constraint: _Constraint, version: SemanticVersion) -> bool:
        bound = constraint.version
        if version.major != bound.major:
            return False
        if bound.major > 0 or constraint.is_minor_dirty:
            return True
        if bound.minor > 0 or constraint.is_patch_dirty or version.minor > 0:
            return version.minor == bound.minor
        return version.patch == bound.patch


def _declare(rules: Rules, integer: GoType) -> dict[str, Function]:
    """Declare the functions for one set of rules, with their own Go type."""
    struct = struct_type("semver.Version")

    class Version(SemanticVersion):
        __slots__ = ()
        go_type = pointer_to(struct)

    rules.version_class = Version
    sized: Callable[[int], Any] = Int64 if integer is INT64 else Uint64

    def method(name: str, result: str, call: Callable[..., Any]) -> None:
        struct.methods[name] = go_function(f"func() {result}")(call)

    method("Major", integer.name, lambda version: sized(version.major))
    method("Minor", integer.name, lambda version: sized(version.minor))
    method("Patch", integer.name, lambda version: sized(version.patch))
    method("Prerelease", "string", lambda version: version.pre)
    method("Metadata", "string", lambda version: version.metadata)
    method("Original", "string", lambda version: version.original)
    method("String", "string", Version.go_string)
    # For encoding to JSON; templates do not call this method.
    method("MarshalJSON", "([]byte, error)", lambda version: f'"{version.go_string()}"'.encode())
    TYPES_BY_NAME["semver.Version"] = struct

    for name, (result, say) in _COMPARISONS.items():
        struct.methods[name] = go_function(f"func(*semver.Version) {result}")(
            lambda version, other, say=say: say(version.compare(other))
        )
    return {
        "semver": go_function("func(string) (*semver.Version, error)")(rules.parse),
        "semverCompare": go_function("func(string, string) (bool, error)")(rules.compare),
    }


_COMPARISONS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "Compare": ("int", lambda order: order),
    "Equal": ("bool", lambda order: order == 0),
    "GreaterThan": ("bool", lambda order: order > 0),
    "LessThan": ("bool", lambda order: order < 0),
}


OF_BLUEPRINTS = _declare(BlueprintRules(), INT64)
OF_COMPOSITIONS = _declare(CompositionRules(), UINT64)
