"""Values of CEL in Python: their types, comparison and arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from math import copysign, inf, isnan, nan
from typing import Any, Final, NamedTuple

import re2

MIN_INT: Final = -(1 << 63)
MAX_INT: Final = (1 << 63) - 1
MAX_UINT: Final = (1 << 64) - 1


_PATTERN_BYTES: Final = 2 << 20
_PATTERN_WORK: Final = 20_000
"""Work for compiling a pattern, which takes up to about 20 ms with this memory limit."""


class Failure(Exception):
    """An expression cannot be parsed or evaluated."""

    def __init__(self, why: str, position: int = -1) -> None:
        super().__init__(why)
        self.position = position


class Limit(Exception):
    """An expression exceeds a limit. Unlike `Failure`, it is not absorbed by `||` and `&&`."""


class Uint(int):
    """An unsigned whole number."""


class Type(str):
    """A type as a value, such as the result of `type(1)`."""

    __slots__ = ()


class Optional(NamedTuple):
    """A value that may be missing."""

    value: Any = None
    has_value: bool = False


NONE: Final = Optional()


def some(value: Any) -> Optional:
    return Optional(value, has_value=True)


class Meter:
    """Remaining work of one evaluation, and the regular expressions compiled in it."""

    __slots__ = ("left", "patterns")

    def __init__(self, work: int) -> None:
        self.left = work
        self.patterns: dict[str, Any] = {}


class Scope:
    """Variables of an expression, and the meter for its work."""

    __slots__ = ("meter", "names")

    def __init__(self, names: Mapping[str, Any], meter: Meter) -> None:
        self.names = names
        self.meter = meter

    def spend(self, work: int) -> None:
        self.meter.left -= work
        if self.meter.left < 0:
            raise Limit

    def inside(self, name: str) -> tuple[Scope, dict[str, Any]]:
        """Return an inner scope with one more variable, and the map in which to set it."""
        names = dict(self.names)
        names[name] = None
        return Scope(names, self.meter), names

    def pattern(self, text: str) -> Any:
        """Compile a regular expression. It is cached for the evaluation."""
        patterns = self.meter.patterns
        if text not in patterns:
            self.spend(_PATTERN_WORK + len(text))
            options = re2.Options()
            options.log_errors = False
            options.max_mem = _PATTERN_BYTES
            try:
                patterns[text] = re2.compile(text, options)
            except re2.error as error:
                reason = error.args[0] if error.args else error
                shown = (
                    reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
                )
                raise Failure(f"not a regular expression: {shown}") from None
        return patterns[text]


def type_of(value: Any) -> str:
    """Return the name of a value's CEL type."""
    for kind, name in _TYPES:
        if isinstance(value, kind):
            return name
    raise Failure(f"a value of {type(value).__name__} has no CEL type")


_TYPES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool"),
    (Uint, "uint"),
    (int, "int"),
    (float, "double"),
    (Type, "type"),
    (str, "string"),
    (bytes, "bytes"),
    (list, "list"),
    (dict, "map"),
    (type(None), "null_type"),
    (datetime, "google.protobuf.Timestamp"),
    (timedelta, "google.protobuf.Duration"),
    (Optional, "optional_type"),
    (Mapping, "map"),
)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_equal(scope: Scope, one: Any, other: Any) -> bool:
    """Return whether two values are equal. Numbers of different types are compared by value."""
    if is_number(one) and is_number(other):
        return bool(one == other)
    if isinstance(one, Optional) and isinstance(other, Optional):
        if not (one.has_value and other.has_value):
            return one.has_value == other.has_value
        return are_equal(scope, one.value, other.value)
    if isinstance(one, list) and isinstance(other, list):
        scope.spend(min(len(one), len(other)))
        return len(one) == len(other) and all(
            are_equal(scope, *pair) for pair in zip(one, other, strict=True)
        )
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        scope.spend(min(len(one), len(other)))
        return len(one) == len(other) and all(
            key in other and are_equal(scope, value, other[key]) for key, value in one.items()
        )
    if type_of(one) != type_of(other):
        return False
    if isinstance(one, str | bytes):
        scope.spend(min(len(one), len(other)) // 64)
    return bool(one == other)


def compare(scope: Scope, one: Any, other: Any) -> int:
    """Compare two values: -1, 0 or 1."""
    check_order(scope, one, other)
    return int(one > other) - int(one < other)


def check_order(scope: Scope, one: Any, other: Any) -> None:
    """Raise `Failure` if two values cannot be ordered."""
    if isinstance(one, str | bytes) and isinstance(other, str | bytes):
        scope.spend(min(len(one), len(other)) // 64)
    are_numbers = is_number(one) and is_number(other)
    if not are_numbers and (type_of(one) != type_of(other) or not isinstance(one, _ORDERED)):
        raise no_overload("_<_", one, other)


_ORDERED = (bool, str, bytes, datetime, timedelta)


def no_overload(function: str, *args: Any) -> Failure:
    return Failure(f"no such overload: {function}({', '.join(type_of(arg) for arg in args)})")


def checked_int(value: int) -> int:
    if not MIN_INT <= value <= MAX_INT:
        raise Failure("integer overflow")
    return value


def checked_uint(value: int) -> Uint:
    if not 0 <= value <= MAX_UINT:
        raise Failure("unsigned integer overflow")
    return Uint(value)


def add(scope: Scope, one: Any, other: Any) -> Any:
    if is_number(one) and is_number(other):
        return calculated("_+_", one, other)
    if isinstance(one, str | bytes | list) and type_of(one) == type_of(other):
        scope.spend(len(one) + len(other))
        return one + other
    try:
        if isinstance(one, datetime) and isinstance(other, timedelta):
            return one + other
        if isinstance(one, timedelta) and isinstance(other, datetime | timedelta):
            return other + one
    except OverflowError:
        raise Failure("the time is out of range") from None
    raise no_overload("_+_", one, other)


def subtract(_scope: Scope, one: Any, other: Any) -> Any:
    if is_number(one) and is_number(other):
        return calculated("_-_", one, other)
    try:
        if isinstance(one, datetime) and isinstance(other, datetime | timedelta):
            return one - other
        if isinstance(one, timedelta) and isinstance(other, timedelta):
            return one - other
    except OverflowError:
        raise Failure("the time is out of range") from None
    raise no_overload("_-_", one, other)


def double_of(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # data may contain any whole number
        raise Failure("the number is out of range") from None


def negate(value: Any) -> Any:
    if isinstance(value, float):
        return -value
    if isinstance(value, int) and not isinstance(value, bool | Uint):
        return checked_int(-value)
    raise no_overload("-_", value)


_CALCULATIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "_+_": operator.add,
    "_-_": operator.sub,
    "_*_": operator.mul,
}


def calculated(function: str, one: Any, other: Any) -> Any:
    """Apply an operator to two numbers: `_+_`, `_-_`, `_*_`, `_/_` or `_%_`."""
    has_fraction = isinstance(one, float) or isinstance(other, float)
    if not (is_number(one) and is_number(other)) or (has_fraction and function == "_%_"):
        raise no_overload(function, one, other)
    calculate = _CALCULATIONS.get(function)
    if has_fraction:
        return (calculate or _quotient)(double_of(one), double_of(other))
    if isinstance(one, Uint) != isinstance(other, Uint):
        raise no_overload(function, one, other)
    value = calculate(one, other) if calculate else _whole_quotient(function, one, other)
    return checked_uint(value) if isinstance(one, Uint) else checked_int(value)


def _whole_quotient(function: str, one: int, other: int) -> int:
    """Return quotient or remainder, rounded towards zero as in Go (Python rounds down)."""
    if other == 0:
        raise Failure("division by zero" if function == "_/_" else "modulus by zero")
    value = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
    return value if function == "_/_" else one - value * other


def _quotient(one: float, other: float) -> float:
    if other:
        return one / other
    return nan if one == 0 or isnan(one) else copysign(inf, one) * copysign(1, other)
