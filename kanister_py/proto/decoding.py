"""Decoder of messages: bytes become data.

The data is protobuf's own JSON, with whole numbers as ints. Trusts nothing:
bytes that are no message raise `NotDecodable`. Fields that are not known, or not of
the kind they should be, are passed over, as protobuf wants it.

Objects of Kubernetes, which are nearly all of a message, are read by hand, for speed;
what is around them is read by protobuf, to which they are bytes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from struct import Struct as Packing
from struct import error as packing_error
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from kanister_py.proto.messages import message_class
from kanister_py.proto.shapes import Field, Kind, Shape, duration_text, shape_of

_NUMBER = Packing("<d").unpack_from
# From here on, Go no longer writes a whole number digit by digit either.
_WHOLE_BELOW = 1e21
# How deep objects and lists may be inside each other: more than any real ones are, and little
# enough for whatever is done with them.
_DEEPEST = 200
# What is smaller cannot become too much, whatever is in it.
_FEW_BYTES = 1 << 20


class NotDecodable(ValueError):
    """Bytes are not the message that they should be."""


class TooManyValues(NotDecodable):
    """A message has more values than there may be objects of."""


_GARBAGE = (IndexError, UnicodeDecodeError, packing_error)


class Unread(Mapping[str, Any]):
    """A message of which a field is read only when it is asked for. Written, it is as it came."""

    __slots__ = ("_found", "_given", "message")

    def __init__(self, shape: Shape, message: Any) -> None:
        self.message = message
        self._given = {
            (field := shape.by_number[descriptor.number]).json_name: (field, value)
            for descriptor, value in message.ListFields()
        }
        self._found: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._found:
            self._found[key] = _decoded(_field, *self._given[key])
        return self._found[key]

    def __contains__(self, key: object) -> bool:
        return key in self._given

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


def decode_message(name: str, data: bytes, *, is_lazy: bool = False) -> dict[str, Any]:
    """Read a message, by its full name. If it `is_lazy`, messages in its maps are `Unread`."""
    try:
        message = message_class(name, is_shallow=True).FromString(data)
    except (DecodeError, UnicodeDecodeError):
        _count(name, data, len(data))
        # Where fields end as they should, it is a text, but for garbage made with care.
        raise NotDecodable("a text in it is not UTF-8") from None
    return _decoded(_message, shape_of(name), message, is_lazy)


def decode_struct(data: bytes) -> dict[str, Any]:
    """Read a `google.protobuf.Struct`."""
    return _decoded(_struct, data, 0, len(data), 0)


def refuse_too_many(name: str, data: bytes, most: int) -> None:
    """Refuse a message that would become far more objects than its bytes say, unread.

    Nobody counts values exactly: every value of a list and every key begins with one of two
    bytes, which few others are. What is no `Struct` is counted field by field.
    """
    if len(data) < _FEW_BYTES:
        return
    if data.count(b"\x0a") + data.count(b"\x8a") > most:
        raise TooManyValues(f"it has more than {most} values")
    _count(name, data, most // 8)


def _count(name: str, data: bytes, most: int) -> None:
    try:
        _spend(shape_of(name), data, 0, len(data), most)
    except _GARBAGE as error:
        raise NotDecodable(_why(error)) from None


def _spend(shape: Shape, data: bytes, at: int, end: int, left: int) -> int:
    """Take a message's fields, and those of the messages in it, off what is left."""
    for number, value, _ in _fields(data, at, end):
        left -= 1
        field = shape.by_number.get(number)
        if field is not None and type(value) is tuple:
            if field.kind is Kind.ENUM:
                left -= value[1] - value[0]
            spans = [value]
            if field.is_map:
                spans = [each for key, each, _ in _fields(data, *value) if key == 2]
            if field.kind is Kind.MESSAGE and not field.shape.is_struct:
                for span in spans:
                    if type(span) is tuple:
                        left = _spend(field.shape, data, span[0], span[1], left)
        if left < 0:
            raise TooManyValues("it has too many fields")
    return left


def top_fields(data: bytes) -> dict[int, list[bytes]]:
    """Take a message apart: its fields that have a length, by number. Nothing inside is read."""
    found: dict[int, list[bytes]] = {}
    at, end = 0, len(data)
    try:
        while at < end:
            tag = data[at]
            if tag & 0x87 != 2 or tag < 8:
                break
            size = data[at + 1]
            at += 2
            if size > 0x7F:
                size, at = _varint(data, at - 1)
            if at + size > end:
                raise NotDecodable("it ends in the middle of a field")
            found.setdefault(tag >> 3, []).append(data[at : at + size])
            at += size
        for number, value, _ in _fields(data, at, end):
            if type(value) is tuple:
                found.setdefault(number, []).append(data[value[0] : value[1]])
    except _GARBAGE as error:
        raise NotDecodable(_why(error)) from None
    return found


_Read = TypeVar("_Read")


def _decoded(read: Callable[..., _Read], *given: Any) -> _Read:
    try:
        return read(*given)
    except RecursionError:
        raise NotDecodable("it is nested too deeply") from None
    except _GARBAGE as error:
        raise NotDecodable(_why(error)) from None


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "a text in it is not UTF-8"
    return "it ends in the middle of a field"


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise NotDecodable("a number in it has no end")


def _fields(data: bytes, at: int, end: int) -> Any:
    """Go through the fields of a message: number, value, and where the next one begins.

    The value of a field with a length is where it begins and ends.
    """
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if not 0 < tag >> 3 < 1 << 29:
            raise NotDecodable("a field in it has no number")
        value: Any
        if kind == 2:
            size, at = _varint(data, at)
            value = (at, at + size)
            at += size
        elif kind == 0:
            value, at = _varint(data, at)
        elif kind in (1, 5):
            value = data[at : at + (8 if kind == 1 else 4)]
            at += 8 if kind == 1 else 4
        else:
            raise NotDecodable("a field in it is of no known kind")
        if at > end:
            raise NotDecodable("it ends in the middle of a field")
        yield tag >> 3, value, at


def _struct(data: bytes, at: int, end: int, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise NotDecodable("it is nested too deeply")
    found: dict[str, Any] = {}
    while at < end:
        if data[at] != 0x0A:
            return _odd_struct(data, at, end, found, depth)
        size = data[at + 1]
        at += 2
        if size > 0x7F:
            size, at = _varint(data, at - 1)
        stop = at + size
        if stop > end:
            raise NotDecodable("it ends in the middle of a field")
        # As everybody writes an entry: the key, then the value, and nothing besides.
        if size and data[at] == 0x0A and (size := data[at + 1]) < 0x80:
            begin = at + 2
            middle = begin + size
            if middle < stop and data[middle] == 0x12:
                size = data[middle + 1]
                inside = middle + 2
                if size > 0x7F:
                    size, inside = _varint(data, middle + 1)
                if inside + size == stop:
                    key = data[begin:middle].decode()
                    # Most values are short texts.
                    if size > 1 and data[inside] == 0x1A and data[inside + 1] == size - 2 < 0x80:
                        found[key] = data[inside + 2 : stop].decode()
                    else:
                        found[key] = _value(data, inside, stop, depth)
                    at = stop
                    continue
        _odd_entry(data, at, stop, found, depth)
        at = stop
    return found


def _odd_struct(
    data: bytes, at: int, end: int, found: dict[str, Any], depth: int
) -> dict[str, Any]:
    for number, value, _ in _fields(data, at, end):
        if number == 1 and type(value) is tuple:
            _odd_entry(data, value[0], value[1], found, depth)
    return found


def _odd_entry(data: bytes, at: int, end: int, found: dict[str, Any], depth: int) -> None:
    """Read an entry in any other order, or with a part left out."""
    key, inside = "", b""
    for number, value, _ in _fields(data, at, end):
        if type(value) is tuple:
            if number == 1:
                key = _text(data, *value)
            elif number == 2:
                inside += data[value[0] : value[1]]
    found[key] = _value(inside, 0, len(inside), depth)


def _value(data: bytes, at: int, end: int, depth: int) -> Any:
    if at == end:
        return None
    tag = data[at]
    if tag == 0x11 and at + 9 == end:
        return _number(data, at + 1)
    if tag == 0x20 and at + 2 == end and data[at + 1] < 0x80:
        return data[at + 1] != 0
    if tag in (0x1A, 0x2A, 0x32):
        size = data[at + 1]
        begin = at + 2
        if size > 0x7F:
            size, begin = _varint(data, at + 1)
        if begin + size == end:
            if tag == 0x1A:
                return data[begin:end].decode()
            read = _struct if tag == 0x2A else _list
            return read(data, begin, end, depth + 1)
    return _odd_value(data, at, end, depth)


def _odd_value(data: bytes, at: int, end: int, depth: int) -> Any:
    """Read a value that says more than one thing; the last one counts, with its like before it."""
    found: Any = None
    inside, last = b"", 0
    for number, value, _ in _fields(data, at, end):
        kind: Any = type(value)
        if kind is not _VALUES.get(number) or (number == 2 and len(value) != 8):
            continue
        if number == 1:
            found = None
        elif number == 2:
            found = _number(value, 0)
        elif number == 3:
            found = _text(data, *value)
        elif number == 4:
            found = value != 0
        else:
            piece = data[value[0] : value[1]]
            inside = inside + piece if number == last else piece
            found = (_struct if number == 5 else _list)(inside, 0, len(inside), depth + 1)
        last = number
    return found


_VALUES = {1: int, 2: bytes, 3: tuple, 4: int, 5: tuple, 6: tuple}


def _text(data: bytes, at: int, end: int) -> str:
    return data[at:end].decode()


def _number(data: bytes, at: int) -> int | float:
    value: float = _NUMBER(data, at)[0]
    if -_WHOLE_BELOW < value < _WHOLE_BELOW:
        whole = int(value)
        return whole if whole == value else value
    if not isfinite(value):
        raise NotDecodable("a number in it is none that JSON has")
    return value


def _list(data: bytes, at: int, end: int, depth: int) -> list[Any]:
    if depth > _DEEPEST:
        raise NotDecodable("it is nested too deeply")
    found: list[Any] = []
    while at < end:
        if data[at] != 0x0A:
            return found + [
                _value(data, value[0], value[1], depth)
                for number, value, _ in _fields(data, at, end)
                if number == 1 and type(value) is tuple
            ]
        size = data[at + 1]
        at += 2
        if size > 0x7F:
            size, at = _varint(data, at - 1)
        stop = at + size
        if stop > end:
            raise NotDecodable("it ends in the middle of a field")
        found.append(_value(data, at, stop, depth))
        at = stop
    return found


# Other messages


def _message(shape: Shape, message: Any, is_lazy: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        field = shape.by_number[descriptor.number]
        if is_lazy and field.is_map and field.kind is Kind.MESSAGE:
            inside = field.shape
            found[field.json_name] = {each.key: Unread(inside, each.value) for each in value}
        else:
            found[field.json_name] = _field(field, value)
    return found


def _field(field: Field, value: Any) -> Any:
    if field.is_map:
        return {each.key: _single(field, each.value) for each in value}
    if field.is_repeated:
        return [_single(field, each) for each in value]
    return _single(field, value)


def _single(field: Field, value: Any) -> Any:
    kind = field.kind
    if kind is Kind.MESSAGE:
        shape = field.shape
        if shape.is_struct:
            if type(value) is bytes:
                return _struct(value, 0, len(value), 0)
            found: dict[str, Any] = {}
            for each in value:
                found.update(_struct(each, 0, len(each), 0))
            return found
        if shape.is_duration:
            return duration_text(value.seconds, value.nanos)
        return _message(shape, value)
    if kind is Kind.ENUM:
        return field.names.get(value, value)
    return b64encode(value).decode() if kind is Kind.BYTES else value
