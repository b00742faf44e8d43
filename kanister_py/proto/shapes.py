"""Shapes of messages: their fields, read from the descriptor once and walked often."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any

_DURATION = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,9}))?s\Z")


class Kind(Enum):
    """Types of fields, as far as our messages use them."""

    TEXT = "text"
    BYTES = "bytes"
    ENUM = "enum"
    WHOLE = "whole number of 32 bits"
    TRUTH = "true or false"
    MESSAGE = "message"


class Field:
    """One field of a message; of a map, `kind`, `shape` and `numbers` are those of its values."""

    def __init__(self, descriptor: Any) -> None:
        self.name: str = descriptor.name
        self.json_name: str = descriptor.camelcase_name
        self.number: int = descriptor.number
        inside = descriptor.message_type
        self.is_map = inside is not None and inside.GetOptions().map_entry
        value = inside.fields_by_name["value"] if self.is_map else descriptor
        self.is_repeated = _is_repeated(descriptor)
        self.has_presence: bool = descriptor.has_presence
        self.kind = _kind_of(value)
        self.shape_name: str = value.message_type.full_name if value.message_type else ""
        enum = value.enum_type
        self.numbers: Mapping[str, int] = (
            {each.name: each.number for each in enum.values} if enum is not None else {}
        )
        self.names = {number: name for name, number in self.numbers.items()}
        has_length = self.kind not in (Kind.ENUM, Kind.WHOLE, Kind.TRUTH) or self.is_repeated
        self.head = _varint(self.number << 3 | (2 if has_length else 0))

    @cached_property
    def shape(self) -> Shape:
        return shape_of(self.shape_name)


class Shape:
    """The fields of a message, in the order of their numbers."""

    __slots__ = ("by_name", "by_number", "fields", "is_duration", "is_struct", "name")

    def __init__(self, descriptor: Any) -> None:
        self.name: str = descriptor.full_name
        self.is_struct = self.name == "google.protobuf.Struct"
        self.is_duration = self.name == "google.protobuf.Duration"
        fields = () if self.is_struct or self.is_duration else map(Field, descriptor.fields)
        self.fields = tuple(sorted(fields, key=lambda each: each.number))
        self.by_number = {each.number: each for each in self.fields}
        # Both spellings are read, as protobuf's JSON wants it.
        self.by_name = {each.name: each for each in self.fields} | {
            each.json_name: each for each in self.fields
        }


@lru_cache(maxsize=256)
def shape_of(name: str) -> Shape:
    from kanister_py.proto.messages import pool

    return Shape(pool().FindMessageTypeByName(name))


def seconds_and_nanos(text: str) -> tuple[int, int]:
    """Read a duration as protobuf's JSON writes it: `60s`, `-0.5s`."""
    found = _DURATION.match(text)
    if found is None:
        raise ValueError(text)
    sign = -1 if found[1] else 1
    return sign * int(found[2]), sign * int((found[3] or "").ljust(9, "0"))


def duration_text(seconds: int, nanos: int) -> str:
    """Write a duration as protobuf's JSON does: no fraction, or one of 3, 6 or 9 digits."""
    sign = "-" if seconds < 0 or nanos < 0 else ""
    fraction = f"{abs(nanos):09}" if nanos else ""
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{sign}{abs(seconds)}{'.' if fraction else ''}{fraction}s"


def _is_repeated(descriptor: Any) -> bool:
    # Newer versions of protobuf warn of `label`, older ones do not have `is_repeated`.
    known = getattr(descriptor, "is_repeated", None)
    return bool(known) if known is not None else descriptor.label == descriptor.LABEL_REPEATED


def _kind_of(descriptor: Any) -> Kind:
    kinds = {
        descriptor.TYPE_STRING: Kind.TEXT,
        descriptor.TYPE_BYTES: Kind.BYTES,
        descriptor.TYPE_ENUM: Kind.ENUM,
        descriptor.TYPE_MESSAGE: Kind.MESSAGE,
        descriptor.TYPE_INT32: Kind.WHOLE,
        descriptor.TYPE_BOOL: Kind.TRUTH,
    }
    return kinds[descriptor.type]


def _varint(value: int) -> bytes:
    return bytes((value,)) if value < 128 else bytes((value & 0x7F | 0x80, value >> 7))
