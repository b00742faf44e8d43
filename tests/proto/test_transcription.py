"""Encoded messages compared with protobuf and the published SDK."""

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
from tests.proto.examples import MESSAGES, whole_numbers_as_ints
from tests.wire_fields import field_bytes


def sdk_class(package: str, name: str) -> Any:
    """Return the class of a message in the published SDK."""
    version = package.rpartition(".")[2]
    module = importlib.import_module(f"crossplane.function.proto.{version}.run_function_pb2")
    return getattr(module, name)


@pytest.mark.parametrize("package", [V1, V1BETA1])
@pytest.mark.parametrize(("name", "data"), MESSAGES)
def test_the_published_sdk_encodes_equally_and_decodes_our_bytes(
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
            field.name: (
                field.number,
                field.type,
                field.has_presence,
                field.enum_type and [(one.name, one.number) for one in field.enum_type.values],
                field.message_type and shape(field.message_type, below),
            )
            for field in descriptor.fields
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


class TestAnyObject:
    """Any object is encoded and decoded as by protobuf's own library."""

    @given(STRUCTS)
    def test_is_equal_after_encoding_and_decoding(self, value: dict[str, Any]) -> None:
        assert decode_struct(encode_struct(value)) == whole_numbers_as_ints(value)

    @given(STRUCTS)
    def test_is_encoded_as_by_protobuf(self, value: dict[str, Any]) -> None:
        theirs = json_format.ParseDict(value, message_class("google.protobuf.Struct")())
        assert encode_struct(value) == theirs.SerializeToString(deterministic=True)

    @given(STRUCTS)
    def test_is_decoded_as_by_protobuf(self, value: dict[str, Any]) -> None:
        theirs = json_format.ParseDict(value, message_class("google.protobuf.Struct")())
        read = decode_struct(theirs.SerializeToString())
        assert read == whole_numbers_as_ints(json_format.MessageToDict(theirs))

    @given(st.binary(max_size=200))
    def test_of_random_bytes_is_decoded_or_refused(self, data: bytes) -> None:
        for name in ("google.protobuf.Struct", f"{V1}.State", "kanister_py.parts.State"):
            with suppress(NotDecodable):
                decode_message(name, data)

    @given(STRUCTS, st.data())
    def test_that_is_truncated_is_refused_or_ends_between_two_keys(
        self, value: dict[str, Any], data: Any
    ) -> None:
        whole_bytes = encode_struct(value)
        cut = whole_bytes[: data.draw(st.integers(0, len(whole_bytes)))]
        try:
            decoded = decode_struct(cut)
        except NotDecodable:
            return
        assert set(decoded) <= set(value)


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param("0a0812031a0162 0a0161", id="the value before the key"),
        pytest.param("0a080a016112031a0162", id="as everybody writes it"),
    ],
)
def test_keys_and_values_of_an_entry_may_be_in_any_order(wire: str) -> None:
    data = bytearray(bytes.fromhex(wire))
    data[1] = len(data) - 2
    assert decode_struct(bytes(data)) == {"a": "b"}


def test_concatenated_messages_are_merged() -> None:
    pieces: list[dict[str, Any]] = [
        {"observed": {"composite": {"ready": "READY_TRUE"}}},
        {"observed": {"resources": {"a": {}}}},
    ]
    data = b"".join(encode_message(f"{V1}.RunFunctionRequest", piece) for piece in pieces)
    theirs = message_class(f"{V1}.RunFunctionRequest").FromString(data)
    assert decode_message(f"{V1}.RunFunctionRequest", data) == json_format.MessageToDict(theirs)


@pytest.mark.parametrize(
    ("number", "want"),
    [
        pytest.param(3.0, 3, id="a whole_numbers_as_ints one"),
        pytest.param(0.5, 0.5, id="a fraction"),
        pytest.param(2.0**63, 2**63, id="beyond 64 bits"),
        pytest.param(1e21, 1e21, id="as far as Go writes digits"),
        pytest.param(-1e300, -1e300, id="a huge one"),
    ],
)
def test_whole_numbers_are_decoded_as_ints(number: float, want: float) -> None:
    decoded = decode_struct(encode_struct({"n": number}))["n"]
    assert (decoded, type(decoded)) == (want, type(want))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_cannot_represent_are_refused_in_both_directions(number: float) -> None:
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


def test_objects_of_the_maximum_depth_are_accepted_by_the_published_sdk() -> None:
    resource = {"resource": nested(MOST_LEVELS - 1)}
    request = {
        "observed": {"resources": {"r": resource}},
        "extraResources": {"e": {"items": [resource]}},
    }
    written = encode_message(f"{V1}.RunFunctionRequest", request)
    assert decode_message(f"{V1}.RunFunctionRequest", written) == request
    assert sdk_class(V1, "RunFunctionRequest").FromString(written).SerializeToString()


@pytest.mark.parametrize("depth", [MOST_LEVELS, 5000])
def test_objects_nested_more_deeply_are_refused(depth: int) -> None:
    reason = f"requiredSchemas.s.openapiV3.a.a.*nested more than {MOST_LEVELS} levels deep"
    with pytest.raises(NotEncodable, match=reason):
        encode_message(
            f"{V1}.RunFunctionRequest", {"requiredSchemas": {"s": {"openapiV3": nested(depth)}}}
        )


@pytest.mark.parametrize("field", [pytest.param(5, id="objects"), pytest.param(6, id="lists")])
def test_bytes_nested_a_thousand_levels_deep_are_refused(field: int) -> None:
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
def test_invalid_data_is_reported_with_its_path(data: dict[str, Any], want: str) -> None:
    with pytest.raises(NotEncodable, match=want):
        encode_message(f"{V1}.RunFunctionRequest", data)


@pytest.mark.parametrize(("name", "data"), MESSAGES)
def test_checking_valid_data_changes_nothing(name: str, data: dict[str, Any]) -> None:
    assert check_message(f"{V1}.{name}", data) == data


@pytest.mark.parametrize(
    "ttl", ["0s", "60s", "-1.500s", "0.000000001s", "3.000001s", "315576000000s"]
)
def test_durations_are_encoded_as_by_protobuf(ttl: str) -> None:
    name = f"{V1}.ResponseMeta"
    theirs = json_format.ParseDict({"ttl": ttl}, message_class(name)())
    assert encode_message(name, {"ttl": ttl}) == theirs.SerializeToString()
    decoded = decode_message(name, theirs.SerializeToString())
    assert decoded == json_format.MessageToDict(theirs)


def test_our_messages_and_the_sdks_can_be_used_in_one_process() -> None:
    ours, theirs = message_class(f"{V1}.State"), sdk_class(V1, "State")
    assert ours is not theirs
    assert ours.DESCRIPTOR.full_name == theirs.DESCRIPTOR.full_name
    assert json.loads(json_format.MessageToJson(ours())) == {}


_KEY = field_bytes(1, b"k")
_NUMBER = b"\x10\x05"  # the number 5 in field 2


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
def test_a_field_of_another_type_is_ignored_as_by_protobuf(
    wire: bytes, want: dict[str, Any]
) -> None:
    assert decode_message(f"{V1}.State", wire) == want
    assert json_format.MessageToDict(message_class(f"{V1}.State").FromString(wire)) == want


def test_a_negative_enum_value_is_preserved() -> None:
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
def test_too_many_values_are_refused_before_parsing(
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
        descriptors = message_class(f"{package}.{name}").DESCRIPTOR.fields
        return {field.number: (field.name, field.has_presence) for field in descriptors}

    ours, theirs = fields("kanister_py.parts"), fields(V1)
    assert {number: field[0] for number, field in ours.items()} == {
        number: field[0] for number, field in theirs.items()
    }
