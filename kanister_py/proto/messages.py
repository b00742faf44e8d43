"""Message classes of protobuf, made at run time.

The classes live in a pool of their own: another package in the same process may
bring messages of the same names, as the published SDKs do, and neither disturbs
the other. They are made from descriptors at run time, so that every version of
protobuf that we allow can make them.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from google.protobuf import duration_pb2, message_factory, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool

V1 = "apiextensions.fn.proto.v1"
V1BETA1 = "apiextensions.fn.proto.v1beta1"
SERVICE = "FunctionRunnerService"
METHODS = {each: f"/{each}.{SERVICE}/RunFunction" for each in (V1, V1BETA1)}


@lru_cache(maxsize=2)
def pool(*, is_shallow: bool = False) -> DescriptorPool:
    made = DescriptorPool()
    for known in (duration_pb2, struct_pb2, timestamp_pb2):
        made.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    # A set of descriptors, as the compiler writes it: .ci/stubs, from the .proto files beside it.
    written = Path(__file__).with_name("descriptors.pb").read_bytes()
    for file in FileDescriptorSet.FromString(written).file:
        for message in file.message_type if is_shallow else ():
            _make_shallow(message)
        made.AddSerializedFile(file.SerializeToString())
    return made


@lru_cache(maxsize=64)
def message_class(name: str, *, is_shallow: bool = False) -> type[Any]:
    """Give the class of a message by its full name, such as `google.protobuf.Struct`.

    One that `is_shallow` leaves every Struct inside as the bytes that it came in, in one
    piece or several, and has a list for each map: its entries, in the order in which they came.
    """
    found = (pool(is_shallow=True) if is_shallow else pool()).FindMessageTypeByName(name)
    made: type[Any] = message_factory.GetMessageClass(found)
    return made


def _make_shallow(message: DescriptorProto) -> None:
    message.options.ClearField("map_entry")
    for field in message.field:
        if field.type_name == f".{struct_pb2.Struct.DESCRIPTOR.full_name}":
            field.type = FieldDescriptorProto.TYPE_BYTES
            field.label = FieldDescriptorProto.LABEL_REPEATED
            for key in ("type_name", "proto3_optional", "oneof_index"):
                field.ClearField(key)
    # What was optional had a choice of its own, which must not stay empty.
    used = sorted({each.oneof_index for each in message.field if each.HasField("oneof_index")})
    kept = [message.oneof_decl[index].name for index in used]
    message.ClearField("oneof_decl")
    for name in kept:
        message.oneof_decl.add(name=name)
    for field in message.field:
        if field.HasField("oneof_index"):
            field.oneof_index = used.index(field.oneof_index)
    for inside in message.nested_type:
        _make_shallow(inside)
