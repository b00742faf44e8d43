"""Encoder of messages: plain data is converted to protobuf's own classes, which are serialised.

Data is protobuf's JSON form: camelCase keys, enums by name, bytes in base64, durations
as `60s`. Equal data results in equal bytes, in any order of keys.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any, Final, TypeVar

from kanister_py.proto.messages import (
    MOST_LEVELS,
    STRUCT,
    Field,
    Kind,
    fields_of,
    message_class,
)

_NOT_UNICODE: Final = "a string that is not valid Unicode cannot be sent"
_MESSAGES: Final = (Kind.MESSAGE, Kind.STRUCT, Kind.DURATION)


class NotEncodable(ValueError):
    """Data does not match its message. `path` is the place of the error."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}" if path else why)
        self.path = path
        self.why = why

    def inside(self, place: str) -> NotEncodable:
        """Return the same error with its path below `place`."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return NotEncodable(f"{place}{dot}{self.path}", self.why)


def encode_message(name: str, data: Mapping[str, Any]) -> bytes:
    """Encode a message, named by its full name."""
    message = message_class(name)()
    _fill(message, name, data)
    written: bytes = message.SerializeToString(deterministic=True)
    return written


def encode_struct(data: Mapping[str, Any]) -> bytes:
    """Encode a `google.protobuf.Struct`."""
    struct = message_class(STRUCT)()
    _set_entries(struct, data, 1)
    written: bytes = struct.SerializeToString(deterministic=True)
    return written


def check_message(name: str, data: Any) -> dict[str, Any]:
    """Return a message in its canonical JSON form, or raise `NotEncodable` with the path.

    Both spellings of fields and numbers of enums are accepted. Structs in the result are the
    same objects as in `data`, and their content is not checked.
    """
    checked = {}
    for field, value in _fields_with_values(name, data):
        try:
            checked[field.json_name] = _checked(field, value)
        except NotEncodable as error:
            raise error.inside(field.json_name) from None
    return checked


def _fields_with_values(name: str, data: Any) -> Iterator[tuple[Field, Any]]:
    """Yield the fields that have a value; null means unset, as in protobuf's JSON."""
    fields = fields_of(name)
    for key, value in _mapping(data, "an object").items():
        field = fields.get(key) or next((f for f in fields.values() if f.name == key), None)
        if field is None:
            raise NotEncodable(str(key), f"unknown field; known fields: {', '.join(fields)}")
        if value is not None:
            yield field, value


def _checked(field: Field, value: Any) -> Any:
    if field.is_map:
        return _entries(value, lambda _, item: _checked_single(field, item))
    if field.is_repeated:
        return _items(value, lambda item: _checked_single(field, item))
    return _checked_single(field, value)


def _checked_single(field: Field, value: Any) -> Any:
    if field.kind is Kind.MESSAGE:
        return check_message(field.type_name, value)
    if field.kind is Kind.STRUCT:
        return value if type(value) is dict else dict(_mapping(value, "an object"))
    if field.kind is Kind.DURATION:
        _set_duration(message_class(field.kind.value)(), value)
        return value
    scalar = _scalar(field, value)
    return field.names.get(scalar, scalar) if field.kind is Kind.ENUM else value


def _fill(message: Any, name: str, data: Any) -> None:
    for field, value in _fields_with_values(name, data):
        try:
            _set_field(message, field, value)
        except NotEncodable as error:
            raise error.inside(field.json_name) from None


def _set_field(message: Any, field: Field, value: Any) -> None:
    if field.kind not in _MESSAGES:
        if field.is_map:
            entries = _entries(value, lambda _, item: _scalar(field, item))
            getattr(message, field.name).update(entries)
        elif field.is_repeated:
            getattr(message, field.name).extend(_items(value, lambda item: _scalar(field, item)))
        else:
            setattr(message, field.name, _scalar(field, value))
        return
    target = getattr(message, field.name)
    if field.is_map:
        _entries(value, lambda key, item: _set_message(target[key], field, item))
    elif field.is_repeated:
        _items(value, lambda item: _set_message(target.add(), field, item))
    else:
        target.SetInParent()
        _set_message(target, field, value)


def _set_message(target: Any, field: Field, value: Any) -> None:
    if field.kind is Kind.STRUCT:
        _set_entries(target, _mapping(value, "an object"), 1)
    elif field.kind is Kind.DURATION:
        _set_duration(target, value)
    else:
        _fill(target, field.type_name, value)


_Made = TypeVar("_Made")


def _entries(values: Any, make: Callable[[str, Any], _Made]) -> dict[str, _Made]:
    converted = {}
    for key, item in _mapping(values, "a map").items():
        try:
            converted[key] = make(_text(key), item)
        except NotEncodable as error:
            raise error.inside(str(key)) from None
    return converted


def _items(values: Any, make: Callable[[Any], _Made]) -> list[_Made]:
    if not isinstance(values, list | tuple):
        raise _wrong("a list", values)
    converted = []
    for index, item in enumerate(values):
        try:
            converted.append(make(item))
        except NotEncodable as error:
            raise error.inside(f"[{index}]") from None
        except UnicodeEncodeError:
            raise NotEncodable(f"[{index}]", _NOT_UNICODE) from None
    return converted


def _wrong(expected: str, value: Any) -> NotEncodable:
    actual = type(value).__name__ if isinstance(value, Mapping | list | tuple) else repr(value)
    return NotEncodable("", f"must be {expected}, found {actual}")


def _mapping(value: Any, expected: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise _wrong(expected, value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong("a string", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotEncodable("", _NOT_UNICODE) from None
    return value


def _scalar(field: Field, value: Any) -> Any:
    kind = field.kind
    if kind is Kind.TEXT:
        return _text(value)
    if kind is Kind.BYTES:
        try:
            return value if isinstance(value, bytes) else b64decode(value, validate=True)
        except (TypeError, ValueError):
            raise NotEncodable("", "must be bytes in base64") from None
    if kind is Kind.BOOL:
        if not isinstance(value, bool):
            raise _wrong("true or false", value)
        return value
    number = field.numbers.get(value) if isinstance(value, str) else value
    if (
        isinstance(number, bool)
        or not isinstance(number, int)
        or not -(1 << 31) <= number < 1 << 31
    ):
        names = f"one of {', '.join(field.numbers)}"
        raise _wrong(names if kind is Kind.ENUM else "a 32-bit integer", value)
    return number


def _set_duration(target: Any, value: Any) -> None:
    try:
        target.FromJsonString(value)
    except (ValueError, AttributeError):
        raise _wrong("a duration such as 60s", value) from None


# Structs


def _set_entries(struct: Any, data: Mapping[str, Any], level: int) -> None:
    if level > MOST_LEVELS:
        why = f"it is nested more than {MOST_LEVELS} levels deep, which protobuf cannot parse"
        raise NotEncodable("", why)
    fields = struct.fields
    for key, value in data.items():
        if not isinstance(key, str):
            raise NotEncodable("", f"the key {key!r} is not a string")
        try:
            _set_value(fields[key], value, level)
        except NotEncodable as error:
            raise error.inside(key) from None
        except UnicodeEncodeError:
            raise NotEncodable(key, _NOT_UNICODE) from None


def _set_value(target: Any, value: Any, level: int) -> None:
    kind = type(value)
    if kind is str:
        target.string_value = value
    elif kind is dict:
        target.struct_value.SetInParent()
        _set_entries(target.struct_value, value, level + 1)
    elif kind is list:
        target.list_value.SetInParent()
        values = target.list_value.values
        _items(value, lambda item: _set_value(values.add(), item, level + 1))
    elif kind is bool:
        target.bool_value = value
    elif kind is int or kind is float:
        target.number_value = _number(value)
    elif value is None:
        target.null_value = 0
    else:
        _set_value(target, _plain(value), level)


def _number(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        raise NotEncodable("", "a number outside the range of a double cannot be sent") from None
    if not isfinite(number):
        raise NotEncodable("", "a number that JSON cannot represent cannot be sent")
    return number


def _plain(value: Any) -> Any:
    """Convert a value of a subclass, such as an enum or another library's dict, to plain data."""
    plain: Any
    for plain in (str, int, float):
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return list(value)
    raise NotEncodable("", f"{type(value).__name__} cannot be sent")
