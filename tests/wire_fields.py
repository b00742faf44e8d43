"""Encoder for protobuf fields that protobuf itself would not write."""

from __future__ import annotations

import random
from typing import Any

from kanister_py.proto.messages import field_of


def field_bytes(number: int, payload: bytes) -> bytes:
    """Return a field of the given number with a length and a payload; `number` is below 16."""
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def varint(value: int) -> bytes:
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*pieces, value])


def shuffled(message: Any, choose: random.Random) -> bytes:
    """Encode a message with the entries of maps in random order, like Go programs do."""
    encoded = b""
    for field, value in message.ListFields():
        inside = field.message_type
        if inside is not None and inside.GetOptions().map_entry:
            keys = list(value)
            choose.shuffle(keys)
            for key in keys:
                if inside.fields_by_name["value"].message_type is None:
                    encoded += _alone(message, field.name, {key: value[key]})
                else:
                    entry = field_bytes(1, key.encode()) + field_bytes(
                        2, shuffled(value[key], choose)
                    )
                    encoded += field_bytes(field.number, entry)
        elif inside is None:
            encoded += _alone(message, field.name, value)
        else:
            for member in value if field_of(field).is_repeated else [value]:
                encoded += field_bytes(field.number, shuffled(member, choose))
    return encoded


def _alone(message: Any, name: str, value: Any) -> bytes:
    encoded: bytes = type(message)(**{name: value}).SerializeToString()
    return encoded
