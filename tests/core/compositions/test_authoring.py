"""Requests and responses for authors of composition functions."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from kanister_py import Request, Response
from kanister_py.core.compositions.authoring import InvalidResponse
from kanister_py.core.compositions.messages import (
    FunctionRequest,
    FunctionResponse,
    duration_of,
)
from kanister_py.core.errors import UsageError

DATA: dict[str, Any] = {
    "meta": {"tag": "t", "capabilities": ["CAPABILITY_CONDITIONS"]},
    "observed": {
        "composite": {
            "resource": {"metadata": {"name": "x"}, "status": {"conditions": [{"type": "Up"}]}},
            "connectionDetails": {"k": "dg=="},
        },
        "resources": {"a": {"resource": {"kind": "A"}, "connectionDetails": {"p": "AAE="}}},
    },
    "desired": {
        "composite": {"resource": {"status": {"n": {"old": 1}}}},
        "resources": {"b": {"resource": {"spec": {"keep": 1}}}},
    },
    "context": {"apiextensions.crossplane.io/environment": {"zone": "z"}},
    "input": {"apiVersion": "x/v1", "kind": "In", "size": 3},
    "credentials": {"c": {"credentialData": {"data": {"user": "dQ=="}}}},
    "requiredResources": {"none": {}, "one": {"items": [{"resource": {"kind": "R"}}]}},
    "extraResources": {"old": {"items": [{"resource": {"kind": "O"}}]}},
    "requiredSchemas": {"s": {"openapiV3": {"type": "object"}}},
}


@pytest.fixture
def request_() -> Request:
    return Request(copy.deepcopy(DATA))


def test_request_is_a_mapping_of_the_message(request_: Request) -> None:
    assert dict(request_) == DATA
    assert request_.get("nothing") is None
    assert "input" in request_
    assert len(Request({})) == 4  # what every request has, if only empty


def test_request_has_properties_for_its_parts(request_: Request) -> None:
    assert request_.composite["metadata"] == {"name": "x"}
    assert request_.connection_details == {"k": b"v"}
    assert request_.resources == {"a": {"kind": "A"}}
    assert request_.resource_connection_details("a") == {"p": b"\x00\x01"}
    assert request_.resource_connection_details("nobody") == {}
    assert request_.environment == {"zone": "z"}
    assert request_.credentials("c") == {"user": b"u"}
    assert request_.credentials("other") == {}
    assert request_.condition("Up") == {"type": "Up"}
    assert request_.condition("Down") == {}
    assert request_.condition("Up", "a") == {}
    assert (request_.can("CONDITIONS"), request_.can("REQUIRED_SCHEMAS")) == (True, False)


def test_requirements_not_fetched_yet_differ_from_missing_ones(request_: Request) -> None:
    assert request_.required("never") is None
    assert request_.required("none") == []
    assert request_.required("one") == [{"kind": "R"}]
    assert request_.required("old") == [{"kind": "O"}]
    assert request_.required_schema("s") == {"type": "object"}
    assert request_.required_schema("never") is None


def test_own_copy_of_a_request_can_be_modified(request_: Request) -> None:
    own = Request(request_.message, is_own=True)
    own["observed"]["composite"].clear()
    assert request_["observed"] == DATA["observed"]
    assert own["observed"]["composite"] == {}


class Input(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int
    zone: str = "here"


def test_input_is_parsed_as_a_model(request_: Request) -> None:
    assert request_.parse_input(Input) == Input(size=3)


def test_invalid_input_reports_every_problem() -> None:
    request = Request({"input": {"kind": "In", "size": "many", "colour": "red"}})
    with pytest.raises(UsageError) as caught:
        request.parse_input(Input)
    assert caught.value.reason == "InvalidFunctionInput"
    problems = caught.value.message.removeprefix("The input of the step is refused: ").split("; ")
    assert [problem.split(":")[0] for problem in problems] == ["size", "colour"]


def test_empty_response_passes_on_desired_state_and_context(request_: Request) -> None:
    response = Response(request_)
    assert dict(response) == {
        "meta": {"tag": "t", "ttl": "60s"},
        "desired": DATA["desired"],
        "context": DATA["context"],
    }
    message = Response(request_).as_message()
    assert message.desired is request_.message.desired
    assert (message.ttl_seconds, message.tag) == (60.0, "t")


def test_reading_a_response_does_not_copy_the_state(request_: Request) -> None:
    response = Response(request_)
    response.normal("made")
    assert [result["message"] for result in response["results"]] == ["made"]
    assert "output" not in response
    assert not response.is_changed
    assert response.as_message().desired is request_.message.desired


def test_changing_a_response_does_not_change_the_request(request_: Request) -> None:
    response = Response(request_)
    response.resource("b")["spec"]["keep"] = 2  # type: ignore[index]  # it is there
    response.context["more"] = True
    assert dict(request_) == DATA


def test_composed_resources_are_desired_merged_and_removed(request_: Request) -> None:
    response = Response(request_)
    details: dict[str, bytes | str] = {"password": b"\x00\x01", "user": "me"}
    response.desire("c", {"kind": "C"}, ready=True, connection_details=details)
    response.merge("b", {"spec": {"more": {"deep": 1}}})
    response.merge("b", {"spec": {"more": {"deeper": 2}}})
    response.merge("d", {"kind": "D"})
    assert list(response.resources) == ["b", "c", "d"]
    response.undesire("d")
    assert response["desired"]["resources"] == {
        "b": {"resource": {"spec": {"keep": 1, "more": {"deep": 1, "deeper": 2}}}},
        "c": {
            "resource": {"kind": "C"},
            "ready": "READY_TRUE",
            "connectionDetails": {"password": "AAE=", "user": "bWU="},
        },
    }
    assert response.resource("d") is None


def test_readiness_can_be_set_and_reset(request_: Request) -> None:
    response = Response(request_)
    response.set_ready("b", False)
    response.set_composite_ready(True)
    assert response.desired["resources"]["b"]["ready"] == "READY_FALSE"
    assert response.desired["composite"]["ready"] == "READY_TRUE"
    response.set_ready("b", None)
    assert "ready" not in response.desired["resources"]["b"]
    with pytest.raises(InvalidResponse, match="x is not desired"):
        response.set_ready("x", True)


def test_status_is_merged(request_: Request) -> None:
    response = Response(request_)
    response.set_status({"n": {"new": 2}, "m": 3})
    response.set_connection_details({"url": "u"})
    assert response.composite["status"] == {"n": {"old": 1, "new": 2}, "m": 3}
    assert response.desired["composite"]["connectionDetails"] == {"url": "dQ=="}


def test_results_conditions_and_requirements_have_the_form_of_the_protocol(
    request_: Request,
) -> None:
    response = Response(request_, ttl_seconds=0)
    response.normal("fine", reason="Fine")
    response.warning("hm", to_claim=True)
    response.fatal("no")
    response.set_condition("Up", True, "Yes", "it is")
    response.set_condition("Down", None, "Perhaps", to_claim=True)
    response.require("one", "v1", "Secret", match_name="s", namespace="n")
    response.require("some", "v1", "Pod", match_labels={"app": "x"})
    response.require_schema("s", "v1", "Pod")
    response.set_output({"done": True})
    ours, both = "TARGET_COMPOSITE", "TARGET_COMPOSITE_AND_CLAIM"
    assert response["meta"] == {"tag": "t"}
    assert response["results"] == [
        {"severity": "SEVERITY_NORMAL", "message": "fine", "reason": "Fine", "target": ours},
        {"severity": "SEVERITY_WARNING", "message": "hm", "target": both},
        {"severity": "SEVERITY_FATAL", "message": "no", "target": ours},
    ]
    assert response["conditions"] == [
        {
            "type": "Up",
            "status": "STATUS_CONDITION_TRUE",
            "reason": "Yes",
            "message": "it is",
            "target": ours,
        },
        {
            "type": "Down",
            "status": "STATUS_CONDITION_UNKNOWN",
            "reason": "Perhaps",
            "target": both,
        },
    ]
    assert response["requirements"] == {
        "resources": {
            "one": {"apiVersion": "v1", "kind": "Secret", "matchName": "s", "namespace": "n"},
            "some": {"apiVersion": "v1", "kind": "Pod", "matchLabels": {"labels": {"app": "x"}}},
        },
        "schemas": {"s": {"apiVersion": "v1", "kind": "Pod"}},
    }
    assert response.as_message().as_data() == dict(response)
    with pytest.raises(InvalidResponse, match="by name and by labels"):
        response.require("x", "v1", "Pod", match_name="a", match_labels={})


class Bucket(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    api_version: str = Field("example.org/v1", alias="apiVersion")
    kind: str = "Bucket"
    size: int = 1
    owner: str = "nobody"


def test_model_is_dumped_with_its_set_fields_and_its_kind(request_: Request) -> None:
    response = Response(request_)
    response.desire("bucket", Bucket(size=3))
    assert response.resource("bucket") == {
        "apiVersion": "example.org/v1",
        "kind": "Bucket",
        "size": 3,
    }


def test_messages_survive_conversion_to_json_and_back() -> None:
    assert FunctionRequest.from_data(DATA).as_data() == DATA
    data = {
        "meta": {"tag": "t", "ttl": "1.500s"},
        "desired": {"resources": {}},
        "results": [{"severity": "SEVERITY_FATAL", "message": "no"}],
        "context": {"k": 1},
        "requirements": {"resources": {}},
        "conditions": [{"type": "T"}],
        "output": {"o": 1},
    }
    assert FunctionResponse.from_data(data).as_data() == data


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (60, "60s"), (1.5, "1.500s"), (-0.25, "-0.250s"), (0.000001, "0.000001s")],
)
def test_duration_is_formatted_as_in_protobuf(seconds: float, text: str) -> None:
    assert duration_of(seconds) == text
