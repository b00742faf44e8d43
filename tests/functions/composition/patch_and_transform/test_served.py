"""Patch-and-transform over gRPC: the same result as in memory, and lazy decoding."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from kanister_py.core.compositions.authoring import Request
from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse
from kanister_py.executor.python_functions import PythonFunction
from kanister_py.executor.wire_messages import (
    REQUEST,
    read_request,
    read_response,
    write_request,
    write_response,
)
from kanister_py.functions.composition.patch_and_transform.plans import plan_for
from kanister_py.functions.composition.patch_and_transform.v0_1_0 import PatchAndTransform
from kanister_py.proto.messages import message_class
from tests.wire_fields import shuffled

COMPOSITE = {"apiVersion": "example.org/v1", "kind": "XR", "metadata": {"name": "x"}}
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"zone": "z"}}
DETAILS = {"user": "YWRtaW4="}


def request_with(*resources: dict[str, Any], **desired: Any) -> dict[str, Any]:
    return {
        "meta": {"tag": "t"},
        "observed": {
            "composite": {"resource": COMPOSITE},
            "resources": {
                "made": {"resource": OBJECT, "connectionDetails": DETAILS},
                "other": {"resource": OBJECT, "connectionDetails": DETAILS},
            },
        },
        "desired": {"resources": desired},
        "input": {"resources": list(resources)},
    }


def answer_to(request: FunctionRequest) -> FunctionResponse:
    answer = PythonFunction(PatchAndTransform, is_ours=True).begin(request)
    assert isinstance(answer, FunctionResponse)
    return answer


PATCHES = [{"fromFieldPath": "metadata.name", "toFieldPath": "data.owner"}]
MADE = {
    "name": "made",
    "base": {"apiVersion": "v1", "kind": "ConfigMap"},
    "patches": [{"type": "ToCompositeFieldPath", "fromFieldPath": "data.zone"}],
    "connectionDetails": [
        {"name": "u", "type": "FromConnectionSecretKey", "fromConnectionSecretKey": "user"}
    ],
    "readinessChecks": [{"type": "None"}],
}


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(request_with(MADE, before={"resource": OBJECT}), id="handed on"),
        pytest.param(
            request_with(MADE, before={"resource": OBJECT, "ready": "READY_FALSE"}), id="not ready"
        ),
        pytest.param(
            request_with(MADE, before={"resource": OBJECT, "connectionDetails": DETAILS}),
            id="with details that end here",
        ),
        pytest.param(request_with(MADE, before={}), id="an empty one"),
        pytest.param(
            request_with({"name": "before", "patches": PATCHES}, before={"resource": OBJECT}),
            id="patched after an earlier step",
        ),
        pytest.param(request_with({"name": "nobody's", "patches": PATCHES}), id="refused"),
    ],
)
def test_response_over_grpc_equals_the_one_in_memory(request_: dict[str, Any]) -> None:
    def answered(request: FunctionRequest) -> dict[str, Any]:
        return read_response(write_response(answer_to(request))).as_data()

    in_memory = FunctionRequest.from_data(request_)
    served = answered(read_request(write_request(in_memory)))
    assert served == answered(FunctionRequest.from_data(request_))


def test_input_is_planned_once_for_any_order_of_keys() -> None:
    wire_bytes = write_request(FunctionRequest.from_data(request_with(MADE)))
    decoded = read_request(wire_bytes).input
    message = message_class(REQUEST).FromString(wire_bytes)
    shuffles = {shuffled(message, random.Random(seed)) for seed in range(20)}
    assert len(shuffles) > 1
    for other in shuffles:
        again = read_request(other).input
        assert again == decoded
        assert plan_for(again) is plan_for(copy.deepcopy(decoded))


def test_result_may_be_changed_by_a_calling_function() -> None:
    request = FunctionRequest.from_data(request_with(MADE, before={"resource": OBJECT}))
    answer = PatchAndTransform().run(Request(read_request(write_request(request))))
    assert type(answer["desired"]["resources"]["before"]) is dict


def test_resources_of_other_steps_are_not_decoded() -> None:
    full_request = FunctionRequest.from_data(request_with(MADE, before={"resource": OBJECT}))
    request = read_request(write_request(full_request))
    answer = answer_to(request)
    before = request.desired.lazy["resources"]["before"]
    assert answer.desired.data["resources"]["before"] is before
    for untouched in (before, request.observed.lazy["resources"]["other"]):
        assert "resource" not in untouched._read
    assert request.observed.lazy["resources"]["made"]._read != {}
