"""Sprig's conversions: to text and numbers, emptiness, equality."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.numbers import MAX_INT64, MIN_INT64, read_float
from kanister_py.gotemplate.printing import sprint
from kanister_py.gotemplate.types import Kind
from kanister_py.gotemplate.values import Struct, Uint8, Value, from_bytes, is_nil, kind_of, type_of

NIL_DEREFERENCE = "runtime error: invalid memory address or nil pointer dereference"

# White space in Go; Python's includes four more control characters.
SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def text_of(value: Value, context: Context) -> str:
    """Convert a value to text as sprig does; bytes are decoded."""
    if type(value) is str:
        return value
    if isinstance(value, bytes):
        return from_bytes(value)
    return show(value, context)


def show(value: Value, context: Context) -> str:
    """Format a value as Go prints it."""
    return sprint(value, context=context)


def wrapped(number: int) -> int:
    """Wrap an integer to 64 bits."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number > MAX_INT64 else number


def cut_to_int(number: float) -> int:
    """Convert a float to an int64; values out of range become the minimum, as on amd64."""
    if math.isfinite(number) and MIN_INT64 <= number < -MIN_INT64:
        return int(number)
    return MIN_INT64


def _decimal(text: str) -> int | None:
    """Parse an integer; a value beyond 64 bits is not parsed to its end, but stays beyond them."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(digits.lstrip("0")[:20] or "0")
    return -number if text.startswith("-") else number


def parse_decimal(text: str) -> int | None:
    """Parse a decimal integer as Go's ParseInt does; None if it does not fit in 64 bits."""
    number = _decimal(text)
    return number if number is not None and MIN_INT64 <= number <= MAX_INT64 else None


def bounded_decimal(text: str) -> int:
    """Parse a decimal integer; 0 if it is none, and limited to 64 bits."""
    return max(MIN_INT64, min(MAX_INT64, _decimal(text) or 0))


def to_int64(value: Value) -> int:
    """Convert a value to an integer; 0 if it is none."""
    if type(value) is str:
        return parse_decimal(value) or 0
    if isinstance(value, int):
        return min(int(value), MAX_INT64)
    if isinstance(value, float):
        return cut_to_int(value)
    return 0


def to_float64(value: Value) -> float:
    """Convert a value to a float; 0 if it is no number."""
    if type(value) is str:
        number = read_float(value)
        return 0.0 if number is None else number
    if isinstance(value, (int, float)):
        return float(value)
    return 0.0


def is_list(value: Value) -> bool:
    return kind_of(value) is Kind.SLICE


def items_of(value: Value, refused: Callable[[str], str]) -> Sequence[Value]:
    """Return the items of a list; `refused` builds the error message for other kinds."""
    kind = kind_of(value)
    if kind is Kind.SLICE:
        return list(map(Uint8, value)) if isinstance(value, bytes) else list(value)
    if kind is None:
        raise GoError(NIL_DEREFERENCE)
    raise GoError(refused(kind.value))


def texts_of(value: Value, context: Context) -> list[str]:
    """Convert the items of a list to texts, except nil; any other value is a list of one."""
    if value is None:
        return []
    if kind_of(value) is not Kind.SLICE:
        return [text_of(value, context)]
    if isinstance(value, bytes):
        return [str(member) for member in value]
    return [text_of(member, context) for member in value if member is not None]


def is_empty(value: Value) -> bool:
    """Return True if sprig considers a value empty. Structs never are."""
    return not value


def deep_equal(one: Value, other: Value, context: Context) -> bool:
    """Compare two values recursively, including their types."""
    context.spend(1)
    go_type = type_of(one)
    if go_type is not type_of(other):
        return False
    if go_type is None:
        return True
    if is_nil(one) or is_nil(other):
        return is_nil(one) and is_nil(other)
    kind = go_type.kind
    if kind is Kind.MAP:
        return len(one) == len(other) and all(
            key in other and deep_equal(member, other[key], context) for key, member in one.items()
        )
    if kind is Kind.SLICE and not isinstance(one, bytes):
        return len(one) == len(other) and all(
            deep_equal(left, right, context) for left, right in zip(one, other, strict=True)
        )
    if isinstance(one, Struct):
        return one is other or all(
            deep_equal(one[name], other[name], context) for name in one.struct.fields
        )
    return bool(one == other)


def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a recursive function so that a value that contains itself is an error, not a crash."""

    def walk(*args: Any) -> Any:
        try:
            return call(*args)
        except RecursionError:
            raise GoError("the value is nested too deeply, or contains itself") from None

    return walk
