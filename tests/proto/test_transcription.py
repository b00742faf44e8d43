"""Messages on the wire: what we write and read, compared with protobuf and the published SDK."""

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

from kanister_py.proto.decoding import decode_message, decode_struct, refuse_too_many
from kanister_py.proto.encoding import (
    NotEncodable,
    check_message,
    encode_message,
    encode_struct,
)
from kanister_py.proto.errors import NotDecodable, TooManyValues
from kanister_py.proto.messages import MOST_LEVELS, V1, V1BETA1, message_class
from tests.wire_fields import field_bytes

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


@pytest.mark.parametrize("package", [V1, V1BETA1])
@pytest.mark.parametrize(("name", "data"), MESSAGES)
def test_the_published_sdk_writes_the_same_bytes_and_reads_ours(
    package: str, name: str, data: dict[str, Any]
) -> None:
    theirs = json_format.ParseDict(data, sdk_class(package, name)())
    written = theirs.SerializeToString(deterministic=True)
    full = f"{package}.{name}"
    assert encode_message(full, data) == written
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
        assert encode_struct(value) == theirs.SerializeToString(deterministic=True)

    @given(STRUCTS)
    def test_is_read_as_protobuf_reads_it(self, value: dict[str, Any]) -> None:
        theirs = json_format.ParseDict(value, message_class("google.protobuf.Struct")())
        read = decode_struct(theirs.SerializeToString())
        assert read == whole(json_format.MessageToDict(theirs))

    @given(st.binary(max_size=200))
    def test_that_is_garbage_is_refused_and_nothing_else_happens(self, data: bytes) -> None:
        for name in ("google.protobuf.Struct", f"{V1}.State", "kanister_py.parts.State"):
            with suppress(NotDecodable):
                decode_message(name, data)

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
    with pytest.raises(NotEncodable, match=r"a\[0\]: a number that JSON cannot represent"):
        encode_struct({"a": [number]})
    theirs = message_class("google.protobuf.Struct")()
    theirs.fields["a"].number_value = number
    with pytest.raises(NotDecodable, match="that JSON cannot represent"):
        decode_struct(theirs.SerializeToString())


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_objects_as_deep_as_protobuf_reads_them_reach_the_published_sdk() -> None:
    resource = {"resource": nested(MOST_LEVELS - 1)}
    request = {
        "observed": {"resources": {"r": resource}},
        "extraResources": {"e": {"items": [resource]}},
    }
    written = encode_message(f"{V1}.RunFunctionRequest", request)
    assert decode_message(f"{V1}.RunFunctionRequest", written) == request
    assert sdk_class(V1, "RunFunctionRequest").FromString(written).SerializeToString()


@pytest.mark.parametrize("depth", [MOST_LEVELS, 5000])
def test_objects_nested_more_deeply_are_refused_with_that_reason(depth: int) -> None:
    reason = f"requiredSchemas.s.openapiV3.a.a.*nested more than {MOST_LEVELS} levels deep"
    with pytest.raises(NotEncodable, match=reason):
        encode_message(
            f"{V1}.RunFunctionRequest", {"requiredSchemas": {"s": {"openapiV3": nested(depth)}}}
        )


@pytest.mark.parametrize("field", [pytest.param(5, id="objects"), pytest.param(6, id="lists")])
def test_bytes_nested_a_thousand_levels_deep_are_refused_with_that_reason(field: int) -> None:
    value = b"\x20\x01"
    for _ in range(1000):
        entry = value if field == 6 else field_bytes(1, b"a") + field_bytes(2, value)
        value = field_bytes(field, field_bytes(1, entry))
    data = field_bytes(1, field_bytes(1, b"k") + field_bytes(2, value))
    with pytest.raises(NotDecodable, match=f"nested more than {MOST_LEVELS} levels deep"):
        decode_struct(data)


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param({"observd": {}}, "observd: unknown field", id="a misspelt field"),
        pytest.param({"input": []}, "input: must be an object", id="no object"),
        pytest.param({"input": {"a": {"b": {1}}}}, "input.a.b: set cannot", id="a set"),
        pytest.param(
            {"input": {"a": {1: 2}}}, "input.a: the key 1 is not a string", id="a number key"
        ),
        pytest.param({"meta": {"tag": 1}}, "meta.tag: must be a string", id="no string"),
        pytest.param(
            {"meta": {"capabilities": ["FLY"]}},
            r"meta.capabilities\[0\]: must be one of",
            id="an unknown capability",
        ),
        pytest.param(
            {"input": {"a": 10**400}}, "outside the range of a double", id="a huge integer"
        ),
        pytest.param({"input": {"a": "\ud800"}}, "not valid Unicode", id="half a character"),
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
        pytest.param(field_bytes(2, _KEY + _NUMBER), {}, id="a number for a message"),
        pytest.param(
            field_bytes(1, field_bytes(2, _KEY + _NUMBER)),
            {"composite": {}},
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
    assert json_format.MessageToDict(message_class(f"{V1}.State").FromString(wire)) == want


def test_a_negative_enum_goes_on_as_it_came() -> None:
    state = {"composite": {"ready": -1}}
    written = encode_message(f"{V1}.State", state)
    assert decode_message(f"{V1}.State", written) == state
    assert json_format.MessageToDict(message_class(f"{V1}.State").FromString(written)) == state
    assert check_message(f"{V1}.State", state) == state


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(field_bytes(1, field_bytes(1, b"k")) * 300_000, id="keys"),
        pytest.param(field_bytes(1, field_bytes(6, b"\x0a\x00" * 600_000)), id="items of a list"),
        pytest.param(b"\x12\x00" * 600_000, id="empty entries of a map"),
        pytest.param(field_bytes(1, b"\x18\x01" * 600_000), id="a field again and again"),
    ],
)
def test_bytes_that_would_become_too_many_values_are_refused_before_they_are_parsed(
    data: bytes,
) -> None:
    with pytest.raises(TooManyValues):
        refuse_too_many(f"{V1}.State", data, len(data) // 8)


def test_a_large_message_of_few_values_is_not_refused() -> None:
    state = {"resources": {str(n): {"resource": {"text": "x" * 20_000}} for n in range(100)}}
    data = encode_message(f"{V1}.State", state)
    refuse_too_many(f"{V1}.State", data, len(data) // 8)
    refuse_too_many(f"{V1}.State", data[:-1] + b"\xff", len(data) // 8)


@pytest.mark.parametrize("name", ["RunFunctionRequest", "RunFunctionResponse", "State", "Resource"])
def test_messages_with_parts_as_bytes_have_the_fields_of_the_originals(name: str) -> None:
    def fields(package: str) -> dict[int, tuple[str, bool]]:
        found = message_class(f"{package}.{name}").DESCRIPTOR.fields
        return {field.number: (field.name, field.has_presence) for field in found}

    ours, theirs = fields("kanister_py.parts"), fields(V1)
    assert {number: field[0] for number, field in ours.items()} == {
        number: field[0] for number, field in theirs.items()
    }
