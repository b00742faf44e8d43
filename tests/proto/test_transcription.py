"""Codec of messages, held against protobuf and the published SDK."""

from __future__ import annotations

import importlib
import json
import math
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.proto.decoding import NotDecodable, decode_message, decode_struct, top_fields
from kanister_py.proto.encoding import (
    NotEncodable,
    check_message,
    encode_message,
    encode_struct,
    field_bytes,
)
from kanister_py.proto.messages import V1, V1BETA1, message_class

# All that a message can say, with every kind of value at least once
REQUEST: dict[str, Any] = {
    "meta": {"tag": "t", "capabilities": ["CAPABILITY_CAPABILITIES", "CAPABILITY_CONDITIONS"]},
    "observed": {
        "composite": {
            "resource": {"spec": {"a": [1, -2.5, "x", True, False, None, {}, [], {"b": "ä😀"}]}},
            "connectionDetails": {"k": "AAH/"},
            "ready": "READY_FALSE",
        },
        "resources": {"r": {"resource": {"long": "x" * 20000}, "ready": "READY_TRUE"}},
    },
    "desired": {"resources": {"empty": {}}},
    "input": {"kind": "In", "n": 0},
    "context": {"apiextensions.crossplane.io/environment": {"k": "v"}},
    "extraResources": {"old": {"items": [{"resource": {"kind": "O"}}]}},
    "credentials": {"c": {"credentialData": {"data": {"user": "dXNlcg==", "word": ""}}}},
    "requiredResources": {"none": {}, "two": {"items": [{}, {"resource": {}}]}},
    "requiredSchemas": {"known": {"openapiV3": {"type": "object"}}, "unknown": {}},
}
RESPONSE: dict[str, Any] = {
    "meta": {"tag": "t", "ttl": "60s"},
    "desired": {"composite": {"resource": {"status": {"n": 3}}, "ready": "READY_TRUE"}},
    "results": [
        {"severity": "SEVERITY_FATAL", "message": "m", "reason": "", "target": "TARGET_COMPOSITE"},
        {"severity": "SEVERITY_NORMAL"},
    ],
    "context": {},
    "requirements": {
        "extraResources": {"x": {"apiVersion": "v1", "kind": "A", "matchName": ""}},
        "resources": {
            "labels": {"kind": "B", "matchLabels": {"labels": {"a": "b", "c": ""}}},
            "place": {"kind": "C", "namespace": ""},
        },
        "schemas": {"s": {"apiVersion": "v1", "kind": "D"}},
    },
    "conditions": [
        {"type": "T", "status": "STATUS_CONDITION_TRUE", "reason": "R", "message": ""},
        {"target": "TARGET_UNSPECIFIED"},
    ],
    "output": {"o": 1.5},
}
MESSAGES = [("RunFunctionRequest", REQUEST), ("RunFunctionResponse", RESPONSE)]


def sdk_class(package: str, name: str) -> Any:
    """Give the published SDK's class of a message."""
    version = package.rpartition(".")[2]
    module = importlib.import_module(f"crossplane.function.proto.{version}.run_function_pb2")
    return getattr(module, name)


def in_protobufs_order(value: Any) -> Any:
    """Sort maps as protobuf's deterministic form does: what goes on comes before what ends."""
    if isinstance(value, dict):
        return {key: in_protobufs_order(value[key]) for key in sorted(value, key=_rank)}
    return [in_protobufs_order(each) for each in value] if isinstance(value, list) else value


def _rank(key: str) -> bytes:
    return key.encode() + b"\xff"


@pytest.mark.parametrize("package", [V1, V1BETA1])
@pytest.mark.parametrize(("name", "data"), MESSAGES)
def test_the_published_sdk_writes_the_same_bytes_and_reads_ours(
    package: str, name: str, data: dict[str, Any]
) -> None:
    theirs = json_format.ParseDict(data, sdk_class(package, name)())
    written = theirs.SerializeToString(deterministic=True)
    full = f"{package}.{name}"
    assert encode_message(full, in_protobufs_order(data)) == written
    assert sdk_class(package, name).FromString(encode_message(full, data)) == theirs
    assert decode_message(full, written) == data
    ours = message_class(full).FromString(written)
    assert ours.SerializeToString(deterministic=True) == written


@pytest.mark.parametrize("package", [V1, V1BETA1])
@pytest.mark.parametrize("name", ["RunFunctionRequest", "RunFunctionResponse"])
def test_the_published_sdk_has_the_same_fields_under_the_same_numbers(
    package: str, name: str
) -> None:
    def shape(descriptor: Any, seen: tuple[str, ...] = ()) -> Any:
        if descriptor.full_name in seen:
            return descriptor.full_name
        below = (*seen, descriptor.full_name)
        return {
            each.name: (
                each.number,
                each.type,
                each.has_presence,
                each.enum_type and [(one.name, one.number) for one in each.enum_type.values],
                each.message_type and shape(each.message_type, below),
            )
            for each in descriptor.fields
        }

    ours = message_class(f"{package}.{name}").DESCRIPTOR
    assert shape(ours) == shape(sdk_class(package, name).DESCRIPTOR)


KEYS = st.text(max_size=200)
NUMBERS = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=300)),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(KEYS, inside, max_size=4),
    max_leaves=20,
)
STRUCTS = st.dictionaries(KEYS, VALUES, max_size=5)


def whole(value: Any) -> Any:
    """Write whole numbers as ints, as every other reader of JSON does."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {key: whole(each) for key, each in value.items()}
    return [whole(each) for each in value] if isinstance(value, list) else value


class TestEveryObject:
    """Whatever an object holds, protobuf's own library and ours say the same of it."""

    @given(STRUCTS)
    def test_comes_back_as_it_was(self, value: dict[str, Any]) -> None:
        assert decode_struct(encode_struct(value)) == whole(value)

    @given(STRUCTS)
    def test_is_written_as_protobuf_writes_it(self, value: dict[str, Any]) -> None:
        theirs = json_format.ParseDict(value, message_class("google.protobuf.Struct")())
        assert encode_struct(in_protobufs_order(value)) == theirs.SerializeToString(
            deterministic=True
        )

    @given(STRUCTS)
    def test_is_read_as_protobuf_reads_it(self, value: dict[str, Any]) -> None:
        theirs = json_format.ParseDict(value, message_class("google.protobuf.Struct")())
        read = decode_struct(theirs.SerializeToString())
        assert read == whole(json_format.MessageToDict(theirs))

    @given(st.binary(max_size=200))
    def test_that_is_garbage_is_refused_and_nothing_else_happens(self, data: bytes) -> None:
        for read in (decode_struct, top_fields, lambda each: decode_message(f"{V1}.State", each)):
            with suppress(NotDecodable):
                read(data)

    @given(STRUCTS, st.data())
    def test_that_is_cut_short_is_refused_or_ends_between_two_keys(
        self, value: dict[str, Any], data: Any
    ) -> None:
        whole_bytes = encode_struct(value)
        cut = whole_bytes[: data.draw(st.integers(0, len(whole_bytes)))]
        try:
            found = decode_struct(cut)
        except NotDecodable:
            return
        assert set(found) <= set(value)


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param("0a0812031a0162 0a0161", id="the value before the key"),
        pytest.param("0a080a0161 12031a0162 1801", id="a field that nobody knows"),
        pytest.param("0a080a016112031a0162", id="as everybody writes it"),
    ],
)
def test_an_entry_is_read_in_whichever_order_it_was_written(wire: str) -> None:
    data = bytearray(bytes.fromhex(wire))
    data[1] = len(data) - 2
    assert decode_struct(bytes(data)) == {"a": "b"}


def test_a_message_in_two_pieces_is_both_of_them() -> None:
    pieces: list[dict[str, Any]] = [
        {"observed": {"composite": {"ready": "READY_TRUE"}}},
        {"observed": {"resources": {"a": {}}}},
    ]
    data = b"".join(encode_message(f"{V1}.RunFunctionRequest", each) for each in pieces)
    theirs = message_class(f"{V1}.RunFunctionRequest").FromString(data)
    assert decode_message(f"{V1}.RunFunctionRequest", data) == json_format.MessageToDict(theirs)


@pytest.mark.parametrize(
    ("number", "want"),
    [
        pytest.param(3.0, 3, id="a whole one"),
        pytest.param(0.5, 0.5, id="a fraction"),
        pytest.param(2.0**63, 2**63, id="beyond 64 bits"),
        pytest.param(1e21, 1e21, id="as far as Go writes digits"),
        pytest.param(-1e300, -1e300, id="a huge one"),
    ],
)
def test_numbers_are_whole_where_they_can_be(number: float, want: float) -> None:
    found = decode_struct(encode_struct({"n": number}))["n"]
    assert (found, type(found)) == (want, type(want))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_calls_no_number_is_refused_on_both_ways(number: float) -> None:
    with pytest.raises(NotEncodable, match=r"a\[0\]: a number that JSON has not"):
        encode_struct({"a": [number]})
    theirs = message_class("google.protobuf.Struct")()
    theirs.fields["a"].number_value = number
    with pytest.raises(NotDecodable, match="none that JSON has"):
        decode_struct(theirs.SerializeToString())


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_objects_may_be_nested_deeper_than_protobuf_reads_them() -> None:
    assert decode_struct(encode_struct(nested(150))) == nested(150)


def test_nesting_without_end_is_refused_and_breaks_nothing() -> None:
    with pytest.raises(NotEncodable, match="nested too deeply"):
        encode_struct(nested(5000))
    data = b""
    for _ in range(5000):
        inside = b"\x2a" + _varint(len(data)) + data
        entry = b"\x0a\x01a\x12" + _varint(len(inside)) + inside
        data = b"\x0a" + _varint(len(entry)) + entry
    with pytest.raises(NotDecodable, match="nested too deeply"):
        decode_struct(data)


def _varint(value: int) -> bytes:
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*pieces, value])


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param({"observd": {}}, "observd: unknown field", id="a misspelt field"),
        pytest.param({"input": []}, "input: must be an object", id="no object"),
        pytest.param({"input": {"a": {"b": {1}}}}, "input.a.b: set cannot", id="a set"),
        pytest.param({"input": {"a": {1: 2}}}, "input.a: the key 1 is no text", id="a number key"),
        pytest.param({"meta": {"tag": 1}}, "meta.tag: must be a text", id="no text"),
        pytest.param(
            {"meta": {"capabilities": ["FLY"]}},
            r"meta.capabilities\[0\]: must be one of",
            id="an unknown capability",
        ),
        pytest.param({"input": {"a": 10**400}}, "beyond what a double", id="a huge integer"),
        pytest.param({"input": {"a": "\ud800"}}, "no Unicode", id="half a character"),
    ],
)
def test_what_does_not_fit_names_its_path(data: dict[str, Any], want: str) -> None:
    with pytest.raises(NotEncodable, match=want):
        encode_message(f"{V1}.RunFunctionRequest", data)


@pytest.mark.parametrize(("name", "data"), MESSAGES)
def test_checking_changes_nothing_that_is_right(name: str, data: dict[str, Any]) -> None:
    assert check_message(f"{V1}.{name}", data) == data


@pytest.mark.parametrize(
    "ttl", ["0s", "60s", "-1.500s", "0.000000001s", "3.000001s", "315576000000s"]
)
def test_durations_are_written_as_protobuf_writes_them(ttl: str) -> None:
    name = f"{V1}.ResponseMeta"
    theirs = json_format.ParseDict({"ttl": ttl}, message_class(name)())
    assert encode_message(name, {"ttl": ttl}) == theirs.SerializeToString()
    found = decode_message(name, theirs.SerializeToString())
    assert found == json_format.MessageToDict(theirs)


def test_our_messages_and_the_sdks_live_side_by_side() -> None:
    ours, theirs = message_class(f"{V1}.State"), sdk_class(V1, "State")
    assert ours is not theirs
    assert ours.DESCRIPTOR.full_name == theirs.DESCRIPTOR.full_name
    assert json.loads(json_format.MessageToJson(ours())) == {}


_KEY = field_bytes(1, b"k")
_NUMBER = b"\x10\x05"  # field 2: five


@pytest.mark.parametrize(
    ("wire", "want"),
    [
        pytest.param(
            field_bytes(2, _KEY + _NUMBER), {"resources": {"k": {}}}, id="a number for a message"
        ),
        pytest.param(
            field_bytes(1, field_bytes(2, _KEY + _NUMBER)),
            {"composite": {"connectionDetails": {"k": ""}}},
            id="a number for bytes",
        ),
        pytest.param(
            field_bytes(1, b"\x19" + bytes(8)), {"composite": {}}, id="eight bytes for an enum"
        ),
        pytest.param(
            field_bytes(1, field_bytes(3, b"")), {"composite": {}}, id="a text for an enum"
        ),
        pytest.param(b"\x08\x01", {}, id="a number for the composite"),
    ],
)
def test_a_field_of_another_kind_is_passed_over_as_protobuf_does(
    wire: bytes, want: dict[str, Any]
) -> None:
    assert decode_message(f"{V1}.State", wire) == want


def test_a_negative_enum_goes_on_as_it_came() -> None:
    state = {"composite": {"ready": -1}}
    written = encode_message(f"{V1}.State", state)
    assert decode_message(f"{V1}.State", written) == state
    assert json_format.MessageToDict(message_class(f"{V1}.State").FromString(written)) == state
    assert check_message(f"{V1}.State", state) == state


def test_a_thousand_lists_inside_each_other_are_no_message() -> None:
    value = b"\x20\x01"
    for _ in range(1000):
        value = field_bytes(6, field_bytes(1, value))
    data = field_bytes(1, field_bytes(1, b"k") + field_bytes(2, value))
    with pytest.raises(NotDecodable, match="nested too deeply"):
        decode_struct(data)
