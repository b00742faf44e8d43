"""Hand-made fields of protobuf messages, for bytes that protobuf itself would not write."""

from __future__ import annotations


def field_bytes(number: int, payload: bytes) -> bytes:
    """Return a field of the given number with a length and a payload; `number` is below 16."""
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def varint(value: int) -> bytes:
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*pieces, value])
