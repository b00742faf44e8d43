"""Wire messages: requests and responses of composition functions in protobuf's encoding.

Large parts of a message stay encoded: the state that one function returned is sent to the
next one as the same bytes, and is decoded only when its content is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from kanister_py.core.compositions.messages import (
    Data,
    FunctionRequest,
    FunctionResponse,
    Part,
)
from kanister_py.proto.decoding import (
    data_of,
    decode_message,
    decode_struct,
    parse_message,
    refuse_too_many,
    value_of,
)
from kanister_py.proto.encoding import NotEncodable, encode_message, encode_struct
from kanister_py.proto.messages import STRUCT, Field, field_of, message_class
from kanister_py.weighted_cache import WeightedCache

PACKAGE = "apiextensions.fn.proto.v1"
REQUEST = f"{PACKAGE}.RunFunctionRequest"
RESPONSE = f"{PACKAGE}.RunFunctionResponse"
STATE = f"{PACKAGE}.State"
# The same messages, with their large parts as bytes.
_REQUEST_PARTS = "kanister_py.parts.RunFunctionRequest"
_RESPONSE_PARTS = "kanister_py.parts.RunFunctionResponse"
_STATE_PARTS = "kanister_py.parts.State"

# Matches numbers that JSON does not have: the field of a Value, with an exponent of all ones.
_INVALID_NUMBER = re.compile(rb"\x11.{6}[\xf0-\xff][\x7f\xff]", re.DOTALL)
# Decoded objects take about eight times the memory of their bytes.
_BYTES_PER_BYTE = 8
_INPUTS = WeightedCache[bytes, Data](32 << 20)


class EncodedResource(Mapping[str, Any]):
    """A Resource whose object is decoded on access, and otherwise sent as it was received."""

    __slots__ = ("_read", "_read_fields", "message")

    def __init__(self, message: Any) -> None:
        self.message = message
        """The resource as a `kanister_py.parts.Resource`."""
        self._read: dict[str, Any] = {}
        self._read_fields: dict[str, tuple[Field, Any]] | None = None

    @property
    def _fields(self) -> dict[str, tuple[Field, Any]]:
        # Most resources are forwarded without being read.
        if self._read_fields is None:
            self._read_fields = {
                field_of(descriptor).json_name: (field_of(descriptor), value)
                for descriptor, value in self.message.ListFields()
            }
        return self._read_fields

    def __getitem__(self, key: str) -> Any:
        if key not in self._read:
            field, value = self._fields[key]
            is_object = field.name == "resource"
            self._read[key] = (
                decode_struct(b"".join(value)) if is_object else value_of(field, value)
            )
        return self._read[key]

    def __contains__(self, key: object) -> bool:
        return key in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


def write_request(request: FunctionRequest) -> bytes:
    """Encode a request. Raises `NotEncodable` with the path of an invalid value."""
    other_fields: dict[str, Any] = {
        "meta": request.meta,
        "input": request.input,
        "extraResources": request.extra_resources,
        "credentials": request.credentials,
        "requiredResources": request.required_resources,
        "requiredSchemas": request.required_schemas,
    }
    parts = message_class(_REQUEST_PARTS)(
        observed=[_written(request.observed, _encode_state, "observed")],
        desired=[_written(request.desired, _encode_state, "desired")],
        context=[_written(request.context, encode_struct, "context")],
    )
    return _joined(parts, encode_message(_REQUEST_PARTS, other_fields))


def read_request(data: bytes) -> FunctionRequest:
    """Decode a request. Raises `NotDecodable`, immediately or when a part of it is read."""
    message = parse_message(_REQUEST_PARTS, data)
    observed = _part(message.observed, _decode_state, _decode_state_lazily)
    desired = _part(message.desired, _decode_state, _decode_state_lazily)
    context = _part(message.context, decode_struct)
    step_input = _input(message.input) if message.HasField("input") else None
    _clear(message, "observed", "desired", "context", "input")
    fields = data_of(message)
    meta = fields.get("meta", {})
    return FunctionRequest(
        observed,
        desired,
        context,
        step_input,
        meta.get("tag", ""),
        tuple(meta.get("capabilities", ())),
        fields.get("credentials"),
        fields.get("requiredResources"),
        fields.get("extraResources"),
        fields.get("requiredSchemas"),
    )


def _input(struct: Any) -> Data:
    """Decode the input of a step, which is the same for all resources of its composition.

    Cached by content, because callers in Go send the keys of a map in random order.
    """
    wire = struct.SerializeToString(deterministic=True)
    key = sha256(wire).digest()
    decoded = _INPUTS.get(key)
    if decoded is None:
        decoded = decode_struct(wire)
        _INPUTS.put(key, decoded, len(wire) * _BYTES_PER_BYTE)
    return decoded


def write_response(response: FunctionResponse) -> bytes:
    """Encode a response. Raises `NotEncodable` with the path of an invalid value."""
    parts = message_class(_RESPONSE_PARTS)(
        meta={"tag": response.tag},
        desired=[_written(response.desired, _encode_state, "desired")],
        context=[_written(response.context, encode_struct, "context")],
    )
    if response.ttl_seconds:
        parts.meta.ttl.FromNanoseconds(round(response.ttl_seconds * 1_000_000_000))
    other_fields: dict[str, Any] = {}
    if response.results:
        other_fields["results"] = response.results
    if response.requirements is not None:
        other_fields["requirements"] = response.requirements
    if response.conditions:
        other_fields["conditions"] = response.conditions
    if response.output is not None:
        other_fields["output"] = response.output
    return _joined(parts, encode_message(_RESPONSE_PARTS, other_fields) if other_fields else b"")


def _joined(parts: Any, other_fields: bytes) -> bytes:
    """Concatenate two encoded messages, which protobuf decodes as one message with all fields."""
    written: bytes = parts.SerializeToString()
    return written + other_fields


def read_response(
    data: bytes, request: FunctionRequest | None = None, max_values: int = 0
) -> FunctionResponse:
    """Decode a response. Raises `NotDecodable` if any part of it is invalid.

    With `max_values`, a response with more values raises `TooManyValues` before it is
    parsed. A part with the same bytes as in `request` is taken from there: it is already checked,
    and perhaps decoded and hashed.
    """
    if max_values:
        refuse_too_many(RESPONSE, data, max_values)
    message = parse_message(_RESPONSE_PARTS, data)
    desired = _part(message.desired, _decode_state)
    context = _part(message.context, decode_struct)
    _clear(message, "desired", "context")
    response = FunctionResponse.from_data(data_of(message))
    return response._replace(
        desired=_checked(desired, STATE, request and request.desired),
        context=_checked(context, STRUCT, request and request.context),
    )


def _checked(part: Part, name: str, sent: Part | None) -> Part:
    """Check a part completely, so that decoding it later cannot fail."""
    if sent is not None and sent.wire == part.wire:
        return sent
    # Parsing takes a tenth of the time of decoding.
    parse_message(name, part.wire)
    # The last byte of such a number is rare and fast to find.
    if (b"\x7f" in part.wire or b"\xff" in part.wire) and _INVALID_NUMBER.search(part.wire):
        _ = part.data
    return part


def _clear(message: Any, *names: str) -> None:
    for name in names:
        message.ClearField(name)


def _part(
    pieces: list[bytes],
    decode: Callable[[bytes], Data],
    decode_lazily: Callable[[bytes], Data] | None = None,
) -> Part:
    return Part(wire=b"".join(pieces), read=decode, read_lazily=decode_lazily)


def _written(part: Part, encode: Callable[[Mapping[str, Any]], bytes], name: str) -> bytes:
    if part.wire is None:
        try:
            part.wire = encode(part.data)
        except NotEncodable as error:
            raise error.inside(name) from None
    wire: bytes = part.wire
    return wire


def _encode_state(data: Mapping[str, Any]) -> bytes:
    resources = data.get("resources")
    if not isinstance(resources, Mapping):
        return encode_message(STATE, data)
    unread = message_class(_STATE_PARTS)()
    read = {}
    for name, resource in resources.items():
        if type(resource) is EncodedResource:
            unread.resources[name].CopyFrom(resource.message)
        else:
            read[name] = resource
    return _joined(unread, encode_message(STATE, {**data, "resources": read}))


def _decode_state(data: bytes) -> Data:
    return decode_message(STATE, data)


def _decode_state_lazily(data: bytes) -> Data:
    state = parse_message(_STATE_PARTS, data)
    decoded: Data = {}
    if state.HasField("composite"):
        decoded["composite"] = dict(EncodedResource(state.composite))
    if state.resources:
        decoded["resources"] = {
            name: EncodedResource(state.resources[name]) for name in sorted(state.resources)
        }
    return decoded
