"""Functions and methods for CEL expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any, Final, NamedTuple

from kanister_py.core.kube.cel.values import (
    NONE,
    Failure,
    Optional,
    Scope,
    Type,
    Uint,
    add,
    are_equal,
    checked_int,
    checked_uint,
    compare,
    double_of,
    is_number,
    no_overload,
    some,
    type_of,
)
from kanister_py.core.kube.durations import InvalidDuration, parse_duration
from kanister_py.gotemplate.numbers import format_float


class Function(NamedTuple):
    """A function and its possible numbers of arguments. A target is the first argument."""

    call: Callable[..., Any]
    counts: tuple[int, ...]


def _text(function: str, value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Type):
        raise no_overload(function, value)
    return value


def _integer(function: str, value: Any) -> int:
    if not is_number(value) or value != value // 1:
        raise no_overload(function, value)
    return checked_int(int(value))


def _size(_scope: Scope, value: Any) -> int:
    if isinstance(value, Type) or not isinstance(value, str | bytes | list | Mapping):
        raise no_overload("size", value)
    return len(value)


# Types


def _int(scope: Scope, value: Any) -> int:
    if isinstance(value, datetime):
        return int((value - _EPOCH) // timedelta(seconds=1))
    return checked_int(_parsed(scope, "int", value, r"[+-]?[0-9]{1,31}", "whole number"))


def _uint(scope: Scope, value: Any) -> Uint:
    number = _parsed(scope, "uint", value, "[0-9]{1,31}", "unsigned whole number")
    return checked_uint(number)


def _parsed(scope: Scope, function: str, value: Any, pattern: str, type_name: str) -> int:
    if isinstance(value, str):
        scope.spend(len(value) // 8)
        if not re.fullmatch(pattern, value):
            raise Failure(f"'{value[:40]}' is not a valid {type_name}")
        return int(value)
    if not is_number(value):
        raise no_overload(function, value)
    try:
        return int(value)
    except (ValueError, OverflowError):
        raise Failure("integer overflow") from None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _double(scope: Scope, value: Any) -> float:
    if isinstance(value, str):
        scope.spend(len(value))
        try:
            return float(value.replace("_", "x"))
        except ValueError:
            raise Failure(f"'{value[:40]}' is not a number") from None
    if is_number(value):
        return double_of(value)
    raise no_overload("double", value)


def _bool(_scope: Scope, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value in ("1", "t", "T", "true", "TRUE", "True"):
            return True
        if value in ("0", "f", "F", "false", "FALSE", "False"):
            return False
        raise Failure(f"'{value[:40]}' is neither true nor false")
    raise no_overload("bool", value)


def _string(scope: Scope, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return format_float(value)
    if isinstance(value, int):
        return str(checked_uint(value) if value > 0 else checked_int(value))
    if isinstance(value, bytes):
        scope.spend(len(value))
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise Failure("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, datetime):
        text = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        return text if "." not in text else f"{text[:-1].rstrip('0')}Z"
    if isinstance(value, timedelta):
        seconds = value / timedelta(seconds=1)
        return f"{int(seconds)}s" if seconds == seconds // 1 else f"{seconds!r}s"
    raise no_overload("string", value)


def _bytes(scope: Scope, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    text = _text("bytes", value)
    scope.spend(len(text))
    return text.encode("utf-8", "surrogatepass")


TYPE_NAMES: Final = frozenset(
    {
        "bool",
        "bytes",
        "double",
        "int",
        "list",
        "map",
        "null_type",
        "optional_type",
        "string",
        "type",
        "uint",
    }
)


# Time


def _timestamp(_scope: Scope, value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return _EPOCH + timedelta(seconds=value)
        except OverflowError:
            raise Failure("the time is out of range") from None
    text = _short("timestamp", value)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise Failure(f"'{text[:40]}' has no time zone; append Z for UTC")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Failure(f"'{text[:40]}' is not a time such as 2024-01-31T12:00:00Z") from None


def _short(function: str, value: Any) -> str:
    """Return a text that may be a time or a duration. Long texts are refused."""
    text = _text(function, value)
    if len(text) > _LONGEST:
        raise Failure(f"{function}() of a string with {len(text)} characters")
    return text


_LONGEST: Final = 256


def _duration(_scope: Scope, value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        return timedelta(microseconds=parse_duration(_short("duration", value)) / 1000)
    except InvalidDuration as error:
        raise Failure(str(error)) from None


_OFFSET: Final = re.compile(r"([+-]?)([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)


def _zone(text: str) -> timezone:
    if text == "UTC":
        return UTC
    if match := _OFFSET.fullmatch(text):
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    raise Failure(f"unknown time zone '{text[:40]}'; give an offset such as +02:00")


def _part_of_time(name: str, part: Callable[[datetime], int], unit: timedelta | None) -> Function:
    """Build a function that returns a part of a time, or of a duration if `unit` is set."""

    def call(_scope: Scope, value: Any, zone: Any = "UTC") -> int:
        if unit is not None and isinstance(value, timedelta):
            units = abs(value) // unit
            return units if value >= timedelta() else -units
        if not isinstance(value, datetime):
            raise no_overload(name, value)
        try:
            return part(value.astimezone(_zone(_text(name, zone))))
        except OverflowError:
            raise Failure("the time is out of range") from None

    return Function(call, (1, 2))


# Texts


def _matches(scope: Scope, value: Any, pattern: Any) -> bool:
    text = _text("matches", value)
    scope.spend(len(text) // 8)
    try:
        return scope.pattern(_text("matches", pattern)).search(text) is not None
    except UnicodeEncodeError:
        raise Failure("matches() of a string that is not valid Unicode") from None


def _string_method(name: str, count: int, call: Callable[..., Any]) -> Function:
    """Build a function whose arguments are strings. Its work depends on their length."""

    def checked(scope: Scope, *values: Any) -> Any:
        texts = [_text(name, value) for value in values]
        scope.spend(sum(map(len, texts)) // 8)
        return call(*texts)

    return Function(checked, (count,))


def _char_at(_scope: Scope, value: Any, at: Any) -> str:
    text, index = _text("charAt", value), _integer("charAt", at)
    if not 0 <= index <= len(text):
        raise Failure(f"index out of range: {index}")
    return text[index : index + 1]


def _substring(scope: Scope, value: Any, start: Any, end: Any = None) -> str:
    text = _text("substring", value)
    first = _integer("substring", start)
    last = len(text) if end is None else _integer("substring", end)
    if not 0 <= first <= last <= len(text):
        raise Failure(f"index out of range: {first}, {last}")
    scope.spend((last - first) // 8)
    return text[first:last]


def _index_of(scope: Scope, value: Any, part: Any, start: Any = 0) -> int:
    if isinstance(value, list):
        return next(iter(_indices(scope, value, part)), -1)
    text = _text("indexOf", value)
    first = _integer("indexOf", start)
    if not 0 <= first <= len(text):
        raise Failure(f"index out of range: {first}")
    scope.spend(len(text) // 8)
    return text.find(_text("indexOf", part), first)


def _last_index_of(scope: Scope, value: Any, part: Any) -> int:
    if isinstance(value, list):
        return [-1, *_indices(scope, value, part)][-1]
    scope.spend(len(_text("lastIndexOf", value)) // 8)
    return str(value).rfind(_text("lastIndexOf", part))


def _indices(scope: Scope, values: list[Any], part: Any) -> list[int]:
    scope.spend(len(values))
    return [at for at, value in enumerate(values) if are_equal(scope, value, part)]


def _split(scope: Scope, value: Any, separator: Any, most: Any = -1) -> list[str]:
    text, mark, limit = _text("split", value), _text("split", separator), _integer("split", most)
    # Every piece is a separate object, which needs the memory of several characters.
    pieces = text.count(mark) if mark else len(text)
    scope.spend(len(text) + 8 * (pieces if limit < 0 else min(pieces, limit)))
    if limit == 0:
        return []
    if not mark:
        if 0 < limit < len(text):
            return [*text[: limit - 1], text[limit - 1 :]]
        return list(text)
    return text.split(mark, limit - 1 if limit > 0 else -1)


def _replace(scope: Scope, value: Any, old: Any, new: Any, most: Any = -1) -> str:
    text, was, will = _text("replace", value), _text("replace", old), _text("replace", new)
    limit = _integer("replace", most)
    count = text.count(was) if limit < 0 else min(text.count(was), limit)
    scope.spend(len(text) + count * len(will))
    return text.replace(was, will, count)


def _join(scope: Scope, value: Any, separator: Any = "") -> str:
    if not isinstance(value, list):
        raise no_overload("join", value)
    texts = [_text("join", item) for item in value]
    mark = _text("join", separator)
    scope.spend(sum(map(len, texts)) + len(mark) * len(texts))
    return mark.join(texts)


_UPPER: Final = {lower: lower - 32 for lower in range(ord("a"), ord("z") + 1)}
_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


# Lists and numbers


def _elements(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise no_overload(name, value)
    return value


def _sum(scope: Scope, value: Any) -> Any:
    total: Any = None
    for item in _elements("sum", value):
        scope.spend(1)
        total = item if total is None else add(scope, total, item)
    return 0 if total is None else total


def _extreme(name: str, sign: int) -> Callable[..., Any]:
    def call(scope: Scope, *values: Any) -> Any:
        items = _elements(name, values[0]) if len(values) == 1 else list(values)
        if len(values) == 1 and not items:
            raise Failure(f"{name}() of an empty list")
        best = items[0]
        for item in items[1:]:
            scope.spend(1)
            if compare(scope, item, best) * sign > 0:
                best = item
        return best

    return call


def _is_sorted(scope: Scope, value: Any) -> bool:
    values = _elements("isSorted", value)
    scope.spend(len(values))
    return all(compare(scope, one, other) <= 0 for one, other in pairwise(values))


# Optional values


def _optional(name: str, value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise no_overload(name, value)
    return value


def _value_of(_scope: Scope, value: Any) -> Any:
    if not _optional("value", value).has_value:
        raise Failure("optional.none() dereference")
    return value.value


_TEXT_METHODS: Final[tuple[tuple[str, int, Callable[..., Any]], ...]] = (
    ("contains", 2, lambda text, part: part in text),
    ("startsWith", 2, lambda text, part: text.startswith(part)),
    ("endsWith", 2, lambda text, part: text.endswith(part)),
    ("lowerAscii", 1, lambda text: text.translate(_LOWER)),
    ("upperAscii", 1, lambda text: text.translate(_UPPER)),
    ("trim", 1, lambda text: text.strip()),
    ("reverse", 1, lambda text: text[::-1]),
)
_TIME_METHODS: Final[tuple[tuple[str, Callable[[datetime], int], timedelta | None], ...]] = (
    ("getFullYear", lambda at: at.year, None),
    ("getMonth", lambda at: at.month - 1, None),
    ("getDate", lambda at: at.day, None),
    ("getDayOfMonth", lambda at: at.day - 1, None),
    ("getDayOfWeek", lambda at: at.isoweekday() % 7, None),
    ("getDayOfYear", lambda at: at.timetuple().tm_yday - 1, None),
    ("getHours", lambda at: at.hour, timedelta(hours=1)),
    ("getMinutes", lambda at: at.minute, timedelta(minutes=1)),
    ("getSeconds", lambda at: at.second, timedelta(seconds=1)),
    ("getMilliseconds", lambda at: at.microsecond // 1000, timedelta(milliseconds=1)),
)

METHODS: Final[Mapping[str, Function]] = {
    **{row[0]: _string_method(*row) for row in _TEXT_METHODS},
    **{row[0]: _part_of_time(*row) for row in _TIME_METHODS},
    "size": Function(_size, (1,)),
    "matches": Function(_matches, (2,)),
    "charAt": Function(_char_at, (2,)),
    "substring": Function(_substring, (2, 3)),
    "indexOf": Function(_index_of, (2, 3)),
    "lastIndexOf": Function(_last_index_of, (2,)),
    "split": Function(_split, (2, 3)),
    "replace": Function(_replace, (3, 4)),
    "join": Function(_join, (1, 2)),
    "sum": Function(_sum, (1,)),
    "min": Function(_extreme("min", -1), (1,)),
    "max": Function(_extreme("max", 1), (1,)),
    "isSorted": Function(_is_sorted, (1,)),
    "hasValue": Function(lambda _scope, value: _optional("hasValue", value).has_value, (1,)),
    "value": Function(_value_of, (1,)),
    "orValue": Function(
        lambda _scope, value, other: (
            value.value if _optional("orValue", value).has_value else other
        ),
        (2,),
    ),
    "or": Function(
        lambda _scope, value, other: (
            value if _optional("or", value).has_value else _optional("or", other)
        ),
        (2,),
    ),
}
"""Methods: functions that are called on a target."""

FUNCTIONS: Final[Mapping[str, Function]] = {
    "size": Function(_size, (1,)),
    "matches": Function(_matches, (2,)),
    "int": Function(_int, (1,)),
    "uint": Function(_uint, (1,)),
    "double": Function(_double, (1,)),
    "bool": Function(_bool, (1,)),
    "string": Function(_string, (1,)),
    "bytes": Function(_bytes, (1,)),
    "type": Function(lambda _scope, value: Type(type_of(value)), (1,)),
    "dyn": Function(lambda _scope, value: value, (1,)),
    "timestamp": Function(_timestamp, (1,)),
    "duration": Function(_duration, (1,)),
    "optional.of": Function(lambda _scope, value: some(value), (1,)),
    "optional.ofNonZeroValue": Function(lambda _scope, value: some(value) if value else NONE, (1,)),
    "optional.none": Function(lambda _scope: NONE, (0,)),
    "math.greatest": Function(_extreme("math.greatest", 1), tuple(range(1, 32))),
    "math.least": Function(_extreme("math.least", -1), tuple(range(1, 32))),
}
"""Functions without a target."""
