"""Decoder of messages: protobuf parses the bytes, then the message is converted to plain data.

The data is protobuf's JSON form, with whole numbers as ints and the keys of maps sorted.
Unknown fields are ignored. Bytes that are no valid message raise `NotDecodable`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from math import isfinite
from typing import Any

from google.protobuf.message import DecodeError

from kanister_py.proto.errors import NotDecodable, TooManyValues
from kanister_py.proto.messages import (
    MOST_LEVELS,
    STRUCT,
    Field,
    Kind,
    field_of,
    fields_of,
    message_class,
)

# Go writes larger numbers in exponential form, too.
_WHOLE_BELOW = 1e21
# Shorter messages cannot contain too many values.
_FEW_BYTES = 1 << 20


def decode_message(name: str, data: bytes) -> dict[str, Any]:
    """Decode a message, named by its full name."""
    return data_of(parse_message(name, data))


def decode_struct(data: bytes) -> dict[str, Any]:
    """Decode a `google.protobuf.Struct`."""
    return _object(parse_message(STRUCT, data))


def parse_message(name: str, data: bytes) -> Any:
    """Parse a message, named by its full name, into protobuf's own class."""
    try:
        return message_class(name).FromString(data)
    except DecodeError as error:
        # Only newer versions of protobuf name the reason.
        detail = str(error).rpartition("': ")[2] if "': " in str(error) else "protobuf refuses it"
        raise NotDecodable(
            f"it is not a valid message or nested more than {MOST_LEVELS} levels deep ({detail})"
        ) from None


def data_of(message: Any) -> dict[str, Any]:
    """Convert a parsed message to plain data."""
    fields = {}
    for descriptor, value in message.ListFields():
        field = field_of(descriptor)
        fields[field.json_name] = value_of(field, value)
    return fields


def value_of(field: Field, value: Any) -> Any:
    """Convert the value of one field of a parsed message."""
    if field.is_map:
        return {key: _single(field, value[key]) for key in sorted(value)}
    if field.is_repeated:
        return [_single(field, item) for item in value]
    return _single(field, value)


def _single(field: Field, value: Any) -> Any:
    kind = field.kind
    if kind is Kind.STRUCT:
        return _object(value)
    if kind is Kind.MESSAGE:
        return data_of(value)
    if kind is Kind.DURATION:
        return value.ToJsonString()
    if kind is Kind.ENUM:
        return field.names.get(value, value)
    return b64encode(value).decode() if kind is Kind.BYTES else value


def _object(struct: Any) -> dict[str, Any]:
    # Sorted, because protobuf's order differs from process to process.
    return {key: _value(value) for key, value in sorted(struct.fields.items())}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "struct_value":
        return _object(value.struct_value)
    if kind == "list_value":
        return [_value(item) for item in value.list_value.values]
    if kind == "number_value":
        number: float = value.number_value
        if -_WHOLE_BELOW < number < _WHOLE_BELOW:
            integer = int(number)
            return integer if integer == number else number
        if not isfinite(number):
            raise NotDecodable("it contains a number that JSON cannot represent")
        return number
    return value.bool_value if kind == "bool_value" else None


# Limit on the number of values, checked before a message is parsed


def refuse_too_many(name: str, data: bytes, most: int) -> None:
    """Raise `TooManyValues` if a message would take far more memory than its bytes.

    This is an estimate without parsing Structs: all keys and all values of lists start with one
    of two byte values, which are rare elsewhere. Outside of Structs, fields are counted.
    """
    if len(data) < _FEW_BYTES:
        return
    if data.count(b"\x0a") + data.count(b"\x8a") > most:
        raise TooManyValues(f"it has more than {most} values")
    _count_fields(name, data, 0, len(data), most // 8)


def _count_fields(name: str, data: bytes, at: int, end: int, left: int) -> int:
    """Subtract the number of fields of a message and its submessages from `left`."""
    fields = {field.number: field for field in fields_of(name).values()}
    for number, start, stop in _spans(data, at, end):
        left -= 1
        field = fields.get(number)
        if field is not None and field.kind is Kind.ENUM:
            left -= stop - start
        elif field is not None and field.kind is Kind.MESSAGE:
            values = [(2, start, stop)]
            if field.is_map:
                values = [span for span in _spans(data, start, stop) if span[0] == 2]
            for _, inner_start, inner_stop in values:
                left = _count_fields(field.type_name, data, inner_start, inner_stop, left)
        if left < 0:
            raise TooManyValues("it has too many fields")
    return left


def _spans(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and end of a message's fields; numeric fields are empty.

    Stops at the first invalid byte, where parsing the message fails as well.
    """
    while at < end:
        tag, start = _varint(data, at, end)
        size, at = 0, start
        match tag & 7:
            case 0:
                at = _varint(data, start, end)[1]
            case 1:
                at += 8
            case 2:
                size, start = _varint(data, start, end)
                at = start + size
            case 5:
                at += 4
            case _:
                return
        yield tag >> 3, start, min(start + size, end)


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        value |= (data[at] & 0x7F) << shift
        at += 1
        shift += 7
        if data[at - 1] < 0x80:
            return value, at
    return 0, end
