"""Encoder of messages: data becomes bytes.

Data is protobuf's own JSON: camelCase keys, enums by name, bytes in base64,
durations as `60s`. Written by hand for speed: what a pipeline carries is nearly all
`google.protobuf.Struct`, which costs the general way ten times as much.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from struct import Struct as Packing
from typing import Any, Final, TypeVar

from kanister_py.proto.decoding import Unread
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

    def inside(self, place: str) -> NotEncodable:
        """Say the same of what this is a part of."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return NotEncodable(f"{place}{dot}{self.path}", self.why)


def encode_message(name: str, data: Mapping[str, Any]) -> bytes:
    """Write a message, by its full name."""
    try:
        return _message(shape_of(name), data)
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
    if value < 1 << 14:
        return (value & 0x7F | 0x80 | value >> 7 << 8).to_bytes(2, "little")
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


def _message(shape: Shape, data: Any) -> bytes:
    if shape.is_struct:
        return encode_struct(_a_map(data, "an object"))
    if shape.is_duration:
        seconds, nanos = _a_duration(data)
        return (b"\x08" + _signed(seconds) if seconds else b"") + (
            b"\x10" + _signed(nanos) if nanos else b""
        )
    if type(data) is Unread:
        written: bytes = data.message.SerializeToString()
        return written
    made = {}
    for field, value in _named_fields(shape, data).items():
        try:
            made[field.number] = _field(field, value)
        except NotEncodable as error:
            raise error.inside(field.json_name) from None
    return b"".join(map(made.__getitem__, sorted(made)))


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


def _a_map(value: Any, wanted: str = "a map") -> Mapping[str, Any]:
    if type(value) is not dict and not isinstance(value, Mapping):
        raise NotEncodable("", f"must be {wanted}, found {_word_of(value)}")
    found: Mapping[str, Any] = value
    return found


def _a_list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise NotEncodable("", f"must be a list, found {_word_of(value)}")
    return value


def _a_duration(value: Any) -> tuple[int, int]:
    try:
        return seconds_and_nanos(value)
    except (TypeError, ValueError):
        raise NotEncodable("", f"must be a duration such as 60s, found {value!r}") from None


def _named_fields(shape: Shape, data: Any) -> Mapping[Field, Any]:
    """Give each field with its value. null is no value, as in protobuf's JSON."""
    given: dict[Field, Any] = {}
    for key, value in _a_map(data, "an object").items():
        field = shape.by_name.get(key)
        if field is None:
            known = ", ".join(each.json_name for each in shape.fields)
            raise NotEncodable(str(key), f"unknown field; there are {known}")
        if value is not None:
            given[field] = value
    return given


_Made = TypeVar("_Made")


def _of_each(make: Callable[[Any], _Made], values: Any) -> Iterator[_Made]:
    for index, each in enumerate(_a_list(values)):
        try:
            yield make(each)
        except NotEncodable as error:
            raise error.inside(f"[{index}]") from None


def _of_each_entry(make: Callable[[Any], _Made], values: Any) -> Iterator[tuple[Any, _Made]]:
    for key, each in _a_map(values).items():
        try:
            yield key, make(each)
        except NotEncodable as error:
            raise error.inside(str(key)) from None


def _field(field: Field, value: Any) -> bytes:
    head = field.head
    if field.is_map:
        entries = _of_each_entry(partial(_single, field, b"\x12"), value)
        return b"".join(
            [head + _sized(_scalar(Kind.TEXT, None, b"\x0a", key) + made) for key, made in entries]
        )
    if field.is_repeated:
        if field.kind is not Kind.ENUM:
            return b"".join(_of_each(partial(_single, field, head), value))
        numbers = b"".join(map(_signed, _of_each(partial(_enum_number, field), value)))
        return head + _sized(numbers) if numbers else b""
    if not field.has_presence and not value:
        return b""
    if field.kind is Kind.ENUM:
        number = _enum_number(field, value)
        return head + _signed(number) if number or field.has_presence else b""
    return _single(field, head, value)


def _single(field: Field, head: bytes, value: Any) -> bytes:
    if field.kind is Kind.MESSAGE:
        return head + _sized(_message(field.shape, value))
    return _scalar(field.kind, field, head, value)


def _scalar(kind: Kind, field: Field | None, head: bytes, value: Any) -> bytes:
    if kind is Kind.BYTES:
        if isinstance(value, bytes):
            return head + _sized(value)
        try:
            return head + _sized(b64decode(value, validate=True))
        except (TypeError, ValueError):
            raise NotEncodable("", "must be bytes in base64") from None
    if kind is Kind.TEXT:
        if not isinstance(value, str):
            raise NotEncodable("", f"must be a text, found {_word_of(value)}")
        try:
            return head + _sized(value.encode())
        except UnicodeEncodeError:
            raise NotEncodable("", "a text that is no Unicode cannot be sent") from None
    assert field is not None
    if kind is Kind.ENUM:
        return head + _signed(_enum_number(field, value))
    if kind is Kind.TRUTH:
        if not isinstance(value, bool):
            raise NotEncodable("", f"must be true or false, found {value!r}")
        return head + (b"\x01" if value else b"\x00")
    if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
        raise NotEncodable("", f"must be a whole number of 32 bits, found {value!r}")
    return head + _signed(value)


def _enum_number(field: Field, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 31:
        return value
    number = field.numbers.get(value) if isinstance(value, str) else None
    if number is None:
        known = ", ".join(field.numbers)
        raise NotEncodable("", f"must be one of {known}, found {value!r}")
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
    checked: dict[str, Any] = _checked_message(shape_of(name), data)
    return checked


def _checked_message(shape: Shape, data: Any) -> Any:
    if shape.is_duration:
        _a_duration(data)
        return data
    if shape.is_struct:
        data = _a_map(data, "an object")
        return data if type(data) is dict else dict(data)
    checked = {}
    for field, value in _named_fields(shape, data).items():
        try:
            checked[field.json_name] = _checked_field(field, value)
        except NotEncodable as error:
            raise error.inside(field.json_name) from None
    return checked


def _checked_field(field: Field, value: Any) -> Any:
    check = partial(_checked, field)
    if field.is_map:
        return dict(_of_each_entry(check, value))
    return list(_of_each(check, value)) if field.is_repeated else check(value)


def _checked(field: Field, value: Any) -> Any:
    if field.kind is Kind.MESSAGE:
        return _checked_message(field.shape, value)
    if field.kind is Kind.ENUM:
        number = _enum_number(field, value)
        return field.names.get(number, number)
    _scalar(field.kind, field, b"", value)
    return value
