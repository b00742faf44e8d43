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
from google.protobuf.descriptor_pool import DescriptorPool

from kanister_py.proto.decoding import top_fields

V1 = "apiextensions.fn.proto.v1"
V1BETA1 = "apiextensions.fn.proto.v1beta1"
SERVICE = "FunctionRunnerService"
METHODS = {each: f"/{each}.{SERVICE}/RunFunction" for each in (V1, V1BETA1)}


@lru_cache(maxsize=1)
def pool() -> DescriptorPool:
    made = DescriptorPool()
    for known in (duration_pb2, struct_pb2, timestamp_pb2):
        made.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    # A set of descriptors, as the compiler writes it: .ci/stubs, from the .proto files beside it.
    written = Path(__file__).with_name("descriptors.pb").read_bytes()
    for data in top_fields(written)[1]:
        made.AddSerializedFile(data)
    return made


@lru_cache(maxsize=64)
def message_class(name: str) -> type[Any]:
    """Give the class of a message by its full name, such as `google.protobuf.Struct`."""
    made: type[Any] = message_factory.GetMessageClass(pool().FindMessageTypeByName(name))
    return made
