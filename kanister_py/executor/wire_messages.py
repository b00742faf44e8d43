"""Wire messages: a call of a composition function as protobuf.

The large parts of a message are not read on their way: what one function answered
goes to the next one as it came, and is read when its content is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from kanister_py.core.compositions.messages import (
    Data,
    FunctionRequest,
    FunctionResponse,
    Part,
    duration_of,
)
from kanister_py.proto.decoding import decode_message, decode_struct, refuse_too_many, top_fields
from kanister_py.proto.encoding import encode_message, encode_struct, field_bytes

PACKAGE = "apiextensions.fn.proto.v1"
REQUEST = f"{PACKAGE}.RunFunctionRequest"
RESPONSE = f"{PACKAGE}.RunFunctionResponse"
STATE = f"{PACKAGE}.State"

_NOTHING: dict[str, Any] = {}
_LONGEST_KEPT_INPUT = 32 * 1024
# What may be a number that JSON has not: the field of a Value, and an exponent of all ones.
_ODD_NUMBER = re.compile(rb"\x11.{6}[\xf0-\xff][\x7f\xff]", re.DOTALL)


def write_request(request: FunctionRequest) -> bytes:
    """Write a request. Raises `NotEncodable`, with the path of what cannot be written."""
    meta: dict[str, Any] = {}
    if request.tag:
        meta["tag"] = request.tag
    if request.capabilities:
        meta["capabilities"] = request.capabilities
    pieces = [
        encode_message(REQUEST, {"meta": meta}),
        field_bytes(2, _written(request.observed, _encode_state)),
        field_bytes(3, _written(request.desired, _encode_state)),
    ]
    if request.input is not None:
        pieces.append(encode_message(REQUEST, {"input": request.input}))
    pieces.append(field_bytes(5, _written(request.context, encode_struct)))
    for key, given in (
        ("extraResources", request.extra_resources),
        ("credentials", request.credentials),
        ("requiredResources", request.required_resources),
        ("requiredSchemas", request.required_schemas),
    ):
        if given:
            pieces.append(encode_message(REQUEST, {key: given}))
    return b"".join(pieces)


def read_request(data: bytes) -> FunctionRequest:
    """Read a request. Raises `NotDecodable`, here or when a part of it is asked for."""
    fields = top_fields(data)
    observed = _part(fields.pop(2, []), _decode_state, _skim_state)
    desired = _part(fields.pop(3, []), _decode_state, _skim_state)
    context = _part(fields.pop(5, []), decode_struct)
    meta, handed_in = fields.pop(1, None), fields.pop(4, None)
    given = decode_message(REQUEST, _joined(fields)) if fields else _NOTHING
    found = decode_message(f"{PACKAGE}.RequestMeta", b"".join(meta)) if meta else _NOTHING
    return FunctionRequest(
        observed,
        desired,
        context,
        None if handed_in is None else _input(b"".join(handed_in)),
        found.get("tag", ""),
        tuple(found.get("capabilities", ())),
        given.get("credentials"),
        given.get("requiredResources"),
        given.get("extraResources"),
        given.get("requiredSchemas"),
    )


def _input(data: bytes) -> dict[str, Any]:
    # It is the composition's own, and so the same in call after call.
    return _kept_input(data) if len(data) <= _LONGEST_KEPT_INPUT else decode_struct(data)


_kept_input = lru_cache(maxsize=64)(decode_struct)


def write_response(response: FunctionResponse) -> bytes:
    """Write a response. Raises `NotEncodable`, with the path of what cannot be written."""
    meta = field_bytes(1, response.tag.encode()) if response.tag else b""
    if response.ttl_seconds:
        meta += _ttl(response.ttl_seconds)
    pieces = [field_bytes(1, meta), field_bytes(2, _written(response.desired, _encode_state))]
    if response.results:
        pieces.append(encode_message(RESPONSE, {"results": response.results}))
    pieces.append(field_bytes(4, _written(response.context, encode_struct)))
    rest: dict[str, Any] = {}
    if response.requirements is not None:
        rest["requirements"] = response.requirements
    if response.conditions:
        rest["conditions"] = response.conditions
    if response.output is not None:
        rest["output"] = response.output
    if rest:
        pieces.append(encode_message(RESPONSE, rest))
    return b"".join(pieces)


@lru_cache(maxsize=64)
def _ttl(seconds: float) -> bytes:
    return encode_message(f"{PACKAGE}.ResponseMeta", {"ttl": duration_of(seconds)})


def read_response(
    data: bytes, request: FunctionRequest | None = None, most_values: int = 0
) -> FunctionResponse:
    """Read a response. Raises `NotDecodable` if any part of it is none.

    With `most_values`, one that has more of them raises `TooManyValues` before it is read.

    What a function hands on as it was in its request is taken over from there: it has
    been looked through, and read or hashed where that was needed.
    """
    if most_values:
        refuse_too_many(RESPONSE, data, most_values)
    fields = top_fields(data)
    desired = _part(fields.pop(2, []), _decode_state)
    if request is not None and request.desired.wire == desired.wire:
        desired = request.desired
        _check(_joined(fields))
    else:
        _check(data)
    context = _part(fields.pop(4, []), decode_struct)
    if request is not None and request.context.wire == context.wire:
        context = request.context
    rest = FunctionResponse.of_data(decode_message(RESPONSE, _joined(fields)))
    return rest._replace(desired=desired, context=context)


def _check(data: bytes) -> None:
    """Look through all of a response, so that nothing in it can fail later on."""
    from google.protobuf.message import DecodeError

    from kanister_py.proto.messages import message_class

    try:
        # Many times as fast as reading, but it gives up on objects that are nested deeply.
        message_class(RESPONSE).FromString(data)
    except (DecodeError, UnicodeDecodeError, RuntimeError):
        decode_message(RESPONSE, data)
        return
    # The last byte of such a number is rare, and looked for in no time.
    if (b"\x7f" in data or b"\xff" in data) and _ODD_NUMBER.search(data):
        decode_message(RESPONSE, data)


def _joined(fields: dict[int, list[bytes]]) -> bytes:
    return b"".join(field_bytes(number, each) for number in fields for each in fields[number])


def _part(
    pieces: list[bytes],
    decode: Callable[[bytes], Data],
    skim: Callable[[bytes], Data] | None = None,
) -> Part:
    return Part(wire=b"".join(pieces), read=decode, read_lazily=skim)


def _written(part: Part, encode: Callable[[Mapping[str, Any]], bytes]) -> bytes:
    if part.wire is None:
        part.wire = encode(part.data)
    wire: bytes = part.wire
    return wire


_encode_state = partial(encode_message, STATE)
_decode_state = partial(decode_message, STATE)
_skim_state = partial(decode_message, STATE, is_lazy=True)
