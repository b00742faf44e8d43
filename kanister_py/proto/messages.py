"""Message classes of protobuf, created at run time from the checked-in descriptors.

The classes are in a separate pool: another package in the same process, such as a
published SDK, may register messages with the same names in the default pool. Created at
run time, they work with every supported version of protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import duration_pb2, message_factory, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

V1 = "apiextensions.fn.proto.v1"
V1BETA1 = "apiextensions.fn.proto.v1beta1"
SERVICE = "FunctionRunnerService"
METHODS = {package: f"/{package}.{SERVICE}/RunFunction" for package in (V1, V1BETA1)}

STRUCT = "google.protobuf.Struct"
MOST_LEVELS = 32
"""Maximum nesting of objects: protobuf's Python library parses no more."""


class Kind(Enum):
    """Types of fields that our messages use."""

    TEXT = "text"
    BYTES = "bytes"
    ENUM = "enum"
    INTEGER = "32-bit integer"
    BOOL = "boolean"
    MESSAGE = "message"
    STRUCT = "google.protobuf.Struct"
    DURATION = "google.protobuf.Duration"


class Field(NamedTuple):
    """One field of a message. `kind`, `type_name` and `numbers` of a map describe its values."""

    name: str
    json_name: str
    number: int
    kind: Kind
    is_map: bool
    is_repeated: bool
    type_name: str
    """Full name of the message of a field whose kind is MESSAGE."""
    numbers: Mapping[str, int]
    """Numbers of an enum by their names."""
    names: Mapping[int, str]


@lru_cache(maxsize=1)
def pool() -> DescriptorPool:
    descriptors = DescriptorPool()
    for module in (duration_pb2, struct_pb2, timestamp_pb2):
        descriptors.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    # A set of descriptors as written by the compiler, dependencies first: see .ci/stubs.
    written = Path(__file__).with_name("descriptors.pb").read_bytes()
    for file in FileDescriptorSet.FromString(written).file:
        descriptors.AddSerializedFile(file.SerializeToString())
    return descriptors


@lru_cache(maxsize=64)
def message_class(name: str) -> type[Any]:
    """Return the class of a message by its full name, such as `google.protobuf.Struct`."""
    message_type: type[Any] = message_factory.GetMessageClass(pool().FindMessageTypeByName(name))
    return message_type


@lru_cache(maxsize=256)
def fields_of(name: str) -> Mapping[str, Field]:
    """Return the fields of a message in the order of their numbers, by `json_name`."""
    descriptors = pool().FindMessageTypeByName(name).fields
    fields = sorted(map(field_of, descriptors), key=lambda field: field.number)
    return {field.json_name: field for field in fields}


@lru_cache(maxsize=1024)
def field_of(descriptor: Any) -> Field:
    inside = descriptor.message_type
    is_map = inside is not None and inside.GetOptions().map_entry
    value = inside.fields_by_name["value"] if is_map else descriptor
    message, enum = value.message_type, value.enum_type
    numbers = {entry.name: entry.number for entry in enum.values} if enum is not None else {}
    return Field(
        descriptor.name,
        descriptor.camelcase_name,
        descriptor.number,
        _kind_of(value),
        is_map,
        _is_repeated(descriptor),
        message.full_name if message is not None else "",
        numbers,
        {number: name for name, number in numbers.items()},
    )


def _is_repeated(descriptor: Any) -> bool:
    # Newer versions of protobuf deprecate `label`; older ones do not have `is_repeated`.
    flag = getattr(descriptor, "is_repeated", None)
    return bool(flag) if flag is not None else descriptor.label == descriptor.LABEL_REPEATED


def _kind_of(descriptor: Any) -> Kind:
    if descriptor.message_type is not None:
        message_kinds = {kind.value: kind for kind in (Kind.STRUCT, Kind.DURATION)}
        return message_kinds.get(descriptor.message_type.full_name, Kind.MESSAGE)
    kinds = {
        descriptor.TYPE_STRING: Kind.TEXT,
        descriptor.TYPE_BYTES: Kind.BYTES,
        descriptor.TYPE_ENUM: Kind.ENUM,
        descriptor.TYPE_INT32: Kind.INTEGER,
        descriptor.TYPE_BOOL: Kind.BOOL,
    }
    return kinds[descriptor.type]
