"""Wire messages: complete checks of responses, and parts that are passed on unchanged."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kanister_py.core.compositions.authoring import Request, Response
from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse, Part
from kanister_py.executor.python_functions import PythonFunction
from kanister_py.executor.wire_messages import (
    REQUEST,
    RESPONSE,
    read_request,
    read_response,
    write_request,
    write_response,
)
from kanister_py.ports.composition_function import CompositionFunction
from kanister_py.proto.encoding import NotEncodable, encode_struct
from kanister_py.proto.errors import NotDecodable
from kanister_py.proto.messages import message_class


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("around", ["", "x" * 100_000], ids=["small", "large"])
def test_a_response_with_a_number_that_json_cannot_represent_is_refused(
    number: float, around: str
) -> None:
    theirs = message_class(RESPONSE)()
    theirs.desired.resources["a"].resource.fields["text"].string_value = around
    theirs.desired.resources["a"].resource.fields["n"].number_value = number
    with pytest.raises(NotDecodable, match="that JSON cannot represent"):
        read_response(theirs.SerializeToString())


@pytest.mark.parametrize("length", [126, 127, 128, 255, 16383])
def test_lengths_with_the_bytes_of_such_a_number_are_accepted(length: int) -> None:
    desired = {"resources": {"a": {"resource": {"n": 1.7e308, "text": "x" * length}}}}
    data = write_response(FunctionResponse(Part(desired)))
    assert read_response(data).desired.data == desired


def test_an_invalid_part_is_reported_with_its_path_in_the_message() -> None:
    desired = {"resources": {"a": {"resource": {"spec": {"n": math.nan}}}}}
    with pytest.raises(NotEncodable) as caught:
        write_request(FunctionRequest(Part({}), Part(desired)))
    assert caught.value.path == "desired.resources.a.resource.spec.n"


def test_unchanged_parts_are_neither_decoded_nor_encoded_again() -> None:
    state = {"resources": {"a": {"resource": {"kind": "A"}}}}
    first = read_response(write_response(FunctionResponse(Part(state), Part({"k": 1}))))
    request = FunctionRequest(Part({}), first.desired, first.context)
    assert read_request(write_request(request)).desired.data == state
    assert first.desired._data is None
    assert first.context._data is None


def test_parts_equal_to_the_request_are_the_same_objects() -> None:
    desired, context = Part({"resources": {"a": {"resource": {"n": 1}}}}), Part({"k": 1})
    request = FunctionRequest(Part({}), desired, context)
    write_request(request)
    echo = write_response(FunctionResponse(desired, context))
    assert read_response(echo, request).desired is desired
    assert read_response(echo, request).context is context
    other = write_response(FunctionResponse(Part({"resources": {}}), Part({"k": 2})))
    assert read_response(other, request).desired.data == {}
    assert read_response(other, request).context.data == {"k": 2}


def test_other_parts_of_a_response_are_still_checked() -> None:
    desired = Part({"resources": {"a": {"resource": {"n": 1}}}})
    request = FunctionRequest(Part({}), desired)
    write_request(request)
    theirs = message_class(RESPONSE).FromString(write_response(FunctionResponse(desired)))
    theirs.context.fields["n"].number_value = math.nan
    with pytest.raises(NotDecodable, match="that JSON cannot represent"):
        read_response(theirs.SerializeToString(), request)


def test_resources_that_are_not_read_are_passed_on_undecoded() -> None:
    theirs = message_class(REQUEST)()
    for name in "ab":
        theirs.desired.resources[name].resource.fields["kind"].string_value = name
    theirs.desired.resources["a"].ready = 1
    theirs.desired.resources["b"].resource.fields["n"].number_value = math.nan
    resources = read_request(theirs.SerializeToString()).desired.lazy["resources"]
    assert resources["a"] == {"resource": {"kind": "a"}, "ready": "READY_TRUE"}
    answer = FunctionResponse(Part({"resources": resources | {"c": {"resource": {"kind": "c"}}}}))
    desired = message_class(RESPONSE).FromString(write_response(answer)).desired
    assert desired.resources["a"] == theirs.desired.resources["a"]
    assert math.isnan(desired.resources["b"].resource.fields["n"].number_value)
    assert desired.resources["c"].resource.fields["kind"].string_value == "c"
    with pytest.raises(NotDecodable, match="that JSON cannot represent"):
        resources["b"]["resource"]


class AddsOne(CompositionFunction):
    """Adds a resource with a field of the composite resource."""

    name = "function-adds-one"

    def run(self, request: Any) -> Response:
        response = Response(request)
        response.desire("new", {"kind": request.composite["kind"]})
        return response


def test_a_function_that_adds_a_resource_decodes_no_other_resource() -> None:
    message = message_class(REQUEST)()
    message.observed.composite.resource.fields["kind"].string_value = "XR"
    for state in (message.observed, message.desired):
        # Decoding it fails.
        state.resources["old"].resource.fields["n"].number_value = math.nan
    answer = PythonFunction(AddsOne).begin(read_request(message.SerializeToString()))
    assert isinstance(answer, FunctionResponse)
    desired = message_class(RESPONSE).FromString(write_response(answer)).desired
    assert desired.resources["old"] == message.desired.resources["old"]
    assert desired.resources["new"].resource.fields["kind"].string_value == "XR"


def test_changes_of_a_decoded_resource_are_sent_and_the_request_stays_equal() -> None:
    resource = {"resource": {"kind": "A", "spec": {"n": 1}}}
    state = {"composite": {"resource": {"kind": "XR"}}, "resources": {"a": resource, "b": resource}}
    data = write_request(FunctionRequest(Part(state), Part(state)))
    request = Request(read_request(data), is_own=True)
    response = Response(request)
    response.merge("a", {"spec": {"m": 2}})
    response.set_ready("a", True)
    response.undesire("b")
    changed = {"resource": {"kind": "A", "spec": {"n": 1, "m": 2}}, "ready": "READY_TRUE"}
    assert read_response(write_response(response.as_message())).desired.data == {
        "composite": {"resource": {"kind": "XR"}},
        "resources": {"a": changed},
    }
    assert request["desired"] == state


def test_the_composite_resource_read_alone_is_the_one_in_the_observed_state() -> None:
    state = {"composite": {"resource": {"kind": "XR"}}, "resources": {"a": {"resource": {}}}}
    request = Request(read_request(write_request(FunctionRequest(Part(state)))), is_own=True)
    composite = request.composite
    assert request["observed"] == state
    assert request["observed"]["composite"]["resource"] is composite


def test_all_desired_resources_are_plain_dicts() -> None:
    state = {"resources": {"a": {"resource": {"kind": "A"}}}}
    data = write_request(FunctionRequest(Part({}), Part(state)))
    response = Response(Request(read_request(data), is_own=True))
    response.desire("b", {"kind": "B"})
    resources = response.desired["resources"]
    assert {name: type(resource) for name, resource in resources.items()} == {"a": dict, "b": dict}


def test_a_repeated_input_is_decoded_once() -> None:
    step_input = {"kind": "Input", "list": [1, {"a": "b"}]}
    requests = [write_request(FunctionRequest(Part({}), input=step_input)) for _ in range(2)]
    first, second = (read_request(data).input for data in requests)
    assert first == step_input
    assert first is second


def test_data_is_encoded_once_for_all_steps() -> None:
    observed = Part({"composite": {"resource": {"kind": "XR"}}})
    write_request(FunctionRequest(observed))
    written = observed.wire
    write_request(FunctionRequest(observed, context=Part({"later": True})))
    assert observed.wire is written


def test_absent_maps_stay_absent_and_empty_maps_stay_empty() -> None:
    request = FunctionRequest(Part({}), required_resources={"none": {}})
    decoded = read_request(write_request(request))
    assert decoded.required_resources == {"none": {}}
    assert (decoded.extra_resources, decoded.input, decoded.credentials) == (None, None, None)


def test_an_object_is_encoded_equally_alone_and_inside_a_message() -> None:
    response = FunctionResponse(context=Part({"a": [1, {"b": "c"}]}))
    assert encode_struct({"a": [1, {"b": "c"}]}) in write_response(response)
