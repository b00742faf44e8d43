"""Encoder of messages: data becomes bytes.

Data is protobuf's own JSON: camelCase keys, enums by name, bytes in base64,
durations as `60s`. Written by hand for speed: what a pipeline carries is nearly all
`google.protobuf.Struct`, which costs the general way ten times as much.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from math import isfinite
from struct import Struct as Packing
from typing import Any, Final

from kanister_py.proto.shapes import Field, Kind, Shape, seconds_and_nanos, shape_of

_LENGTHS = tuple(bytes((each,)) for each in range(128)) + tuple(
    bytes((each & 0x7F | 0x80, each >> 7)) for each in range(128, 1024)
)
_KNOWN_LENGTHS = len(_LENGTHS)
# What stands before an entry of an object, and before its value if that is a short text.
_ENTRIES = tuple(b"\x0a" + each for each in _LENGTHS)
_SHORT = 120
_TEXTS = tuple(b"\x12" + _LENGTHS[each + 2] + b"\x1a" + _LENGTHS[each] for each in range(_SHORT))
_NUMBER = Packing("<d").pack
_TRUE, _FALSE, _NULL = b"\x12\x02\x20\x01", b"\x12\x02\x20\x00", b"\x12\x02\x08\x00"
# The keys of objects repeat from object to object: each is written once.
_KEYS: dict[str, bytes] = {}
_MOST_KEYS = 4096


class NotEncodable(ValueError):
    """Data does not fit its message. `path` says where."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}" if path else why)
        self.path = path
        self.why = why


def encode_message(name: str, data: Mapping[str, Any]) -> bytes:
    """Write a message, by its full name."""
    try:
        return _message(shape_of(name), data, "")
    except RecursionError:
        raise NotEncodable("", "it is nested too deeply") from None


def encode_struct(data: Mapping[str, Any]) -> bytes:
    """Write a `google.protobuf.Struct`."""
    try:
        return _struct(data)
    except (TypeError, AttributeError, UnicodeEncodeError, RecursionError, OverflowError) as error:
        # Looked for only now: the way there costs time.
        raise _why_no_struct(data, error) from None


def field_bytes(number: int, payload: bytes) -> bytes:
    """Write one field that has a length: a text, bytes or a message."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(value: int) -> bytes:
    if value < _KNOWN_LENGTHS:
        return _LENGTHS[value]
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)


def _key(key: str) -> bytes:
    text = key.encode()
    made = b"\x0a" + varint(len(text)) + text
    if len(_KEYS) >= _MOST_KEYS:
        _KEYS.clear()
    if len(text) < 128:
        _KEYS[key] = made
    return made


def _struct(data: Mapping[str, Any]) -> bytes:
    known = _KEYS
    entries, texts = _ENTRIES, _TEXTS
    pieces: list[bytes] = []
    add = pieces.append
    for key, value in data.items():
        head = known.get(key) or _key(key)
        kind = type(value)
        if kind is str:
            text = value.encode()
            size = len(text)
            if size < _SHORT:
                value_head = texts[size]
                size += 4
            else:
                value_head = b"\x1a" + varint(size)
                value_head = b"\x12" + varint(len(value_head) + size) + value_head
                size += len(value_head)
        else:
            text, value_head = _value(value, kind), b""
            size = len(text)
        size += len(head)
        add(entries[size] if size < _KNOWN_LENGTHS else b"\x0a" + varint(size))
        add(head)
        add(value_head)
        add(text)
    return b"".join(pieces)


def _value(value: Any, kind: type) -> bytes:
    """Write a value as the second field of an entry: `12 length value`."""
    if kind is dict:
        inner = _struct(value)
        inner = b"\x2a" + varint(len(inner)) + inner
    elif kind is list:
        inner = _list(value)
        inner = b"\x32" + varint(len(inner)) + inner
    elif value is True:
        return _TRUE
    elif value is False:
        return _FALSE
    elif value is None:
        return _NULL
    elif kind is int or kind is float:
        if not isfinite(value):
            raise TypeError
        return b"\x12\x09\x11" + _NUMBER(value)
    elif kind is str:
        text = value.encode()
        inner = b"\x1a" + varint(len(text)) + text
    else:
        return _value(*_plain(value))
    return b"\x12" + varint(len(inner)) + inner


def _list(values: list[Any]) -> bytes:
    # An element of a list is the first field of its message, a value of an entry the second.
    return b"".join([b"\x0a" + _value(each, type(each))[1:] for each in values])


def _plain(value: Any) -> tuple[Any, type]:
    """Find the plain type behind a subclass, such as an enum or a dict of another library."""
    plain: Any
    for plain in (str, bool, int, float, dict, list):
        if isinstance(value, plain):
            return plain(value), plain
    if isinstance(value, Mapping):
        return dict(value), dict
    if isinstance(value, tuple):
        return list(value), list
    raise TypeError


def _why_no_struct(value: Any, error: Exception, path: str = "") -> NotEncodable:
    if isinstance(error, RecursionError):
        return NotEncodable("", "it is nested too deeply")
    if isinstance(value, Mapping):
        inside = [(f"{path}.{key}" if path else str(key), each) for key, each in value.items()]
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            return NotEncodable(path, f"the key {odd!r} is no text")
    elif isinstance(value, list | tuple):
        inside = [(f"{path}[{index}]", each) for index, each in enumerate(value)]
    else:
        what = "a number that JSON has not" if isinstance(value, float) else type(value).__name__
        if isinstance(value, int):
            what = "a number beyond what a double holds"
        if isinstance(value, str):
            what = "a text that is no Unicode"
        return NotEncodable(path, f"{what} cannot be sent")
    for where, each in inside:
        try:
            _value(each, type(each))
        except (TypeError, AttributeError, UnicodeEncodeError, OverflowError) as why:
            return _why_no_struct(each, why, where)
    return NotEncodable(path, f"{type(value).__name__} cannot be sent")


def _message(shape: Shape, data: Any, path: str) -> bytes:
    if shape.is_duration:
        seconds, nanos = _a_duration(data, path)
        return (b"\x08" + _signed(seconds) if seconds else b"") + (
            b"\x10" + _signed(nanos) if nanos else b""
        )
    data = _a_map(data, path, "an object")
    if shape.is_struct:
        try:
            return encode_struct(data)
        except NotEncodable as error:
            raise NotEncodable(_below(path, error.path), error.why) from None
    given = _named_fields(shape, data, path)
    return b"".join(
        _field(field, given[field.json_name], _below(path, field.json_name))
        for field in shape.fields
        if field.json_name in given
    )


def _word_of(value: Any) -> str:
    """Name the kind of a value as JSON knows it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    for kind, word in _WORDS:
        if isinstance(value, kind):
            return word
    return type(value).__name__


_WORDS: Final[Sequence[tuple[Any, str]]] = (
    (Mapping, "a map"),
    (str, "a text"),
    (list | tuple, "a list"),
    (int | float, "a number"),
)


def _a_map(value: Any, path: str, wanted: str = "a map") -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise NotEncodable(path, f"must be {wanted}, found {_word_of(value)}")
    return value


def _a_list(value: Any, path: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise NotEncodable(path, f"must be a list, found {_word_of(value)}")
    return value


def _a_duration(value: Any, path: str) -> tuple[int, int]:
    try:
        return seconds_and_nanos(value)
    except (TypeError, ValueError):
        raise NotEncodable(path, f"must be a duration such as 60s, found {value!r}") from None


def _named_fields(shape: Shape, data: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Give the fields under their names in JSON. null is no value, as in protobuf's JSON."""
    given: dict[str, Any] = {}
    for key, value in data.items():
        field = shape.by_name.get(key)
        if field is None:
            known = ", ".join(each.json_name for each in shape.fields)
            raise NotEncodable(_below(path, str(key)), f"unknown field; there are {known}")
        if value is not None:
            given[field.json_name] = value
    return given


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path and key else path or key


def _field(field: Field, value: Any, path: str) -> bytes:
    if field.is_map:
        return b"".join(
            field.head
            + _sized(
                _scalar(Kind.TEXT, None, key, path, b"\x0a")
                + _single(field, each, f"{path}.{key}", b"\x12")
            )
            for key, each in _a_map(value, path).items()
        )
    if field.is_repeated:
        every = [(f"{path}[{index}]", each) for index, each in enumerate(_a_list(value, path))]
        if field.kind is Kind.ENUM:
            numbers = b"".join(_signed(_enum_number(field, each, where)) for where, each in every)
            return field.head + _sized(numbers) if numbers else b""
        return b"".join(_single(field, each, where, field.head) for where, each in every)
    if not field.has_presence and not value:
        return b""
    if field.kind is Kind.ENUM:
        number = _enum_number(field, value, path)
        return field.head + _signed(number) if number or field.has_presence else b""
    return _single(field, value, path, field.head)


def _single(field: Field, value: Any, path: str, head: bytes) -> bytes:
    if field.kind is Kind.MESSAGE:
        return head + _sized(_message(field.shape, value, path))
    return _scalar(field.kind, field, value, path, head)


def _scalar(kind: Kind, field: Field | None, value: Any, path: str, head: bytes) -> bytes:
    if kind is Kind.BYTES:
        if isinstance(value, bytes):
            return head + _sized(value)
        try:
            return head + _sized(b64decode(value, validate=True))
        except (TypeError, ValueError):
            raise NotEncodable(path, "must be bytes in base64") from None
    if kind is Kind.TEXT:
        if not isinstance(value, str):
            raise NotEncodable(path, f"must be a text, found {_word_of(value)}")
        try:
            return head + _sized(value.encode())
        except UnicodeEncodeError:
            raise NotEncodable(path, "a text that is no Unicode cannot be sent") from None
    assert field is not None
    if kind is Kind.ENUM:
        return head + _signed(_enum_number(field, value, path))
    if kind is Kind.TRUTH:
        if not isinstance(value, bool):
            raise NotEncodable(path, f"must be true or false, found {value!r}")
        return head + (b"\x01" if value else b"\x00")
    if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
        raise NotEncodable(path, f"must be a whole number of 32 bits, found {value!r}")
    return head + _signed(value)


def _enum_number(field: Field, value: Any, path: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 31:
        return value
    number = field.numbers.get(value) if isinstance(value, str) else None
    if number is None:
        known = ", ".join(field.numbers)
        raise NotEncodable(path, f"must be one of {known}, found {value!r}")
    return number


def _sized(payload: bytes) -> bytes:
    return varint(len(payload)) + payload


def _signed(value: int) -> bytes:
    return varint(value & 0xFFFFFFFFFFFFFFFF)


# Checking, without the bytes


def check_message(name: str, data: Any) -> dict[str, Any]:
    """Give a message in protobuf's own JSON, or raise `NotEncodable` with the path.

    Takes both spellings of a field, and numbers of enums. Objects of Kubernetes
    inside are the caller's own, not looked into.
    """
    checked: dict[str, Any] = _checked_message(shape_of(name), data, "")
    return checked


def _checked_message(shape: Shape, data: Any, path: str) -> Any:
    if shape.is_duration:
        _a_duration(data, path)
        return data
    data = _a_map(data, path, "an object")
    if shape.is_struct:
        return data if type(data) is dict else dict(data)
    return {
        key: _checked_field(shape.by_name[key], value, _below(path, key))
        for key, value in _named_fields(shape, data, path).items()
    }


def _checked_field(field: Field, value: Any, path: str) -> Any:
    if field.is_map:
        values = _a_map(value, path)
        return {key: _checked(field, each, f"{path}.{key}") for key, each in values.items()}
    if field.is_repeated:
        every = enumerate(_a_list(value, path))
        return [_checked(field, each, f"{path}[{index}]") for index, each in every]
    return _checked(field, value, path)


def _checked(field: Field, value: Any, path: str) -> Any:
    if field.kind is Kind.MESSAGE:
        return _checked_message(field.shape, value, path)
    if field.kind is Kind.ENUM:
        number = _enum_number(field, value, path)
        return field.names.get(number, number)
    _scalar(field.kind, field, value, path, b"")
    return value
