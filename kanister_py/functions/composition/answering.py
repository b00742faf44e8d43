"""Responses of composition functions: their initial state, results, context and TTL.

A response starts with the desired state of the request and shares its parts with the
request, so a part must be copied before it is changed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel

from kanister_py.core.compositions.messages import nanoseconds_text
from kanister_py.core.kube.durations import InvalidDuration, parse_duration
from kanister_py.functions.composition.fields import (
    Fields,
    InputInvalid,
    Refusal,
    decode_error,
    decode_input,
    input_model,
)
from kanister_py.ports.composition_function import CompositionFunction

Data = dict[str, Any]

ENVIRONMENT_KEY = "apiextensions.crossplane.io/environment"
EXTRA_RESOURCES_KEY = "apiextensions.crossplane.io/extra-resources"
DEFAULT_TTL = "60s"


class Refused(Exception):
    """Error that ends a call with a fatal result; its text is the message of the result.

    If the input is invalid, `path` is the field with the problem.
    """

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class DescribedFunction(CompositionFunction):
    """Function whose input is validated and documented from a table of fields."""

    fields: ClassVar[Fields]

    @classmethod
    def described_input(cls) -> type[BaseModel]:
        return input_model(cls.fields)

    @classmethod
    def refusal_of(cls, function_input: Any) -> Refusal | None:
        """Return the problem of an input that does not depend on the request, or None."""
        try:
            return cls().refusal_of_decoded(decode_input(function_input, cls.fields))
        except InputInvalid as error:
            return error.refused

    def refusal_of_decoded(self, _function_input: Data) -> Refusal | None:
        """Return a problem of an input that its table of fields cannot express, or None."""
        return None


class AnsweringFunction(DescribedFunction):
    """Function that fills in a response. Raising `Refused` adds a fatal result to the response."""

    go_type: ClassVar[str]
    """Name of the input's type in the original function."""

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = start_response(request)
        try:
            try:
                input_ = decode_input(request.get("input"), self.fields)
            except InputInvalid as error:
                raise Refused(
                    "cannot get Function input from *v1.RunFunctionRequest: "
                    f"cannot get function input {decode_error(self.go_type, error)}"
                ) from None
            self.answer(request, input_, answer)
        except Refused as refused:
            add_result(answer, "FATAL", str(refused))
        return answer

    @abstractmethod
    def answer(self, request: Mapping[str, Any], function_input: Data, answer: Data) -> None:
        """Fill in the response to a request with this input."""


def meta_of(request: Mapping[str, Any]) -> Data:
    tag = (request.get("meta") or {}).get("tag")
    return {"tag": tag, "ttl": DEFAULT_TTL} if tag else {"ttl": DEFAULT_TTL}


def start_response(request: Mapping[str, Any]) -> Data:
    """Create a response with the desired state and the context of the request."""
    answer: Data = {"meta": meta_of(request), "desired": request.get("desired") or {}}
    if request.get("context"):
        answer["context"] = request["context"]
    return answer


def add_result(answer: Data, severity: str, message: str) -> None:
    answer.setdefault("results", []).append(
        {"severity": f"SEVERITY_{severity}", "message": message, "target": "TARGET_COMPOSITE"}
    )


def set_context(answer: Data, key: str, value: Any) -> None:
    """Set a key of the context for later steps."""
    answer["context"] = {**answer.get("context", {}), key: value}


def composite_of(request: Mapping[str, Any]) -> Data:
    """Return the observed composite resource."""
    observed = request.get("observed") or {}
    return (observed.get("composite") or {}).get("resource") or {}


def map_at(obj: Mapping[str, Any], key: str, problem: str) -> Data:
    """Return a map inside an object. Raises Refused, prefixed by `problem`, if there is none."""
    value = obj.get(key)
    if isinstance(value, dict):
        return value
    raise Refused(f"{problem}{key}: {'not an object' if key in obj else 'no such field'}")


def ttl_of(text: str | None) -> str | None:
    """Convert a duration from Go's to protobuf's format. Returns None if it is invalid."""
    if not text:
        return None
    try:
        return nanoseconds_text(parse_duration(text))
    except InvalidDuration:
        return None


# Go's types of JSON values; in a request, every number is a float64.
GO_TYPES: Mapping[type, str] = {
    type(None): "<nil>",
    bool: "bool",
    int: "float64",
    float: "float64",
    str: "string",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}
