"""Values between two fields: their Go types, and their conversion when they are written.

Every number in a request is a double; in an object that was written to, whole numbers are
int64. Transforms distinguish the two, so a Python float represents a double, and a Python
int an int64.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from kanister_py.core.kube.field_paths import FieldPath, MergeOptions, merge_values
from kanister_py.functions.composition.answering import GO_TYPES
from kanister_py.gotemplate.errors import LimitExceeded
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.sprig.jsons import encode

Resolve: TypeAlias = Callable[[Any], Any]
Config: TypeAlias = Mapping[str, Any]

MAX_INT64: Final = (1 << 63) - 1
MIN_INT64: Final = -(1 << 63)
_EXACT: Final = 1 << 53
MAX_TEXT: Final = 16 * 1024 * 1024
"""Maximum length of a text; short formats and separators could produce gigabytes."""
_NO_UTF8: Final = re.compile("[\ud800-\udfff]")


class Unresolved(Exception):
    """Error for a patch that cannot be applied, reported in the response."""


def as_floats(value: Any) -> Any:
    """Copy a value of a request, with every number as a double."""
    kind = type(value)
    if kind is int:
        return as_float(value)
    if kind is dict:
        return {key: as_floats(member) for key, member in value.items()}
    if kind is list:
        return [as_floats(element) for element in value]
    return value


def as_float(value: int) -> float:
    """Return the double nearest to a whole number of any size."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_decoded(value: Any) -> Any:
    """Copy a value like Kubernetes decodes JSON: whole numbers of 64 bits are ints."""
    kind = type(value)
    if kind is float:
        number = int(value) if value.is_integer() else None
        return value if number is None or not MIN_INT64 <= number <= MAX_INT64 else number
    if kind is int:
        return value if MIN_INT64 <= value <= MAX_INT64 else as_float(value)
    if kind is dict:
        return {key: as_decoded(member) for key, member in value.items()}
    if kind is list:
        return [as_decoded(element) for element in value]
    return value


def settled(value: Any) -> Any:
    """Copy a value in the form that it has in the target.

    Whole numbers are ints with the precision of a double. Invalid UTF-8 becomes the
    replacement character.
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _NO_UTF8.sub("\ufffd", value)
    if kind is int:
        return value if -_EXACT <= value <= _EXACT else _settled_number(as_float(value))
    if kind is float:
        return _settled_number(value)
    if kind is dict:
        return {settled(key): settled(member) for key, member in value.items()}
    if kind is list:
        return [settled(element) for element in value]
    return value


def _settled_number(value: float) -> int | float:
    if not math.isfinite(value):
        word = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        raise Unresolved(f"cannot marshal value to JSON: json: unsupported value: {word}")
    return int(value) if value.is_integer() else value


def go_type(value: Any) -> str:
    """Return the Go type of a value, like `%T`."""
    return _GO_TYPES[type(value)]


_GO_TYPES: Final = {**GO_TYPES, int: "int64"}


def int64_of(value: float) -> int:
    """Convert a double to an int64 like an amd64 processor."""
    if not math.isfinite(value):
        return MIN_INT64
    number = int(value)
    return number if MIN_INT64 <= number <= MAX_INT64 else MIN_INT64


def wrapped_int64(value: int) -> int:
    """Keep the lower 64 bits, like int64 arithmetic."""
    return (value - MIN_INT64 & (1 << 64) - 1) + MIN_INT64


def never(why: str) -> Resolve:
    """Return a function that always raises Unresolved."""

    def refuse(_: Any) -> Any:
        raise Unresolved(why)

    return refuse


class Document:
    """Object to read from or write to. A document that is written to must be a private copy.

    An object that was written to is decoded again: from then on, its whole numbers are
    ints. Before that, all numbers of a request are doubles.
    """

    __slots__ = ("data", "is_decoded")

    def __init__(self, data: dict[str, Any], *, is_decoded: bool = False) -> None:
        self.data = data
        self.is_decoded = is_decoded

    def read(self, path: FieldPath) -> Any:
        """Return a copy of the value at a path, with the number types of this document."""
        value = path.get(self.data)
        return as_decoded(value) if self.is_decoded else as_floats(value)

    def write(self, path: FieldPath, value: Any, merge: MergeOptions | None) -> None:
        """Set the value at a path, without copying it."""
        if merge is not None:
            existing = path.find(self.data)
            typed = as_decoded(existing) if self.is_decoded else as_floats(existing)
            value = settled(merge_values(typed, value, merge))
        path.set(self.data, value)

    def written(self) -> None:
        """Finish a patch, and check that the result is still an object with a kind."""
        kind = self.data.get("kind")
        if not isinstance(kind, str) or not kind:
            raise Unresolved(missing_kind(self.data))
        self.is_decoded = True


def missing_kind(data: Any) -> str:
    return f"Object 'Kind' is missing in '{written(as_floats(data))}'"


def written(value: Any) -> str:
    """Encode a value as JSON like encoding/json."""
    try:
        return encode(value, Context())
    except GoError as error:
        raise Unresolved(error.text) from error
    except LimitExceeded as error:
        raise too_long() from error


def too_long() -> Unresolved:
    return Unresolved(f"the text would have more than {MAX_TEXT} bytes")
