"""Requirements loop: a function is called until it has all it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.core.compositions.messages import Data, FunctionRequest, FunctionResponse
from kanister_py.core.compositions.model import Step
from kanister_py.core.compositions.requirements import (
    Fetched,
    check_allowed,
    requirements_of,
    unsettled,
    with_fetched,
)
from kanister_py.ports.function_runner import Caller, FunctionCall
from kanister_py.ports.requirement_source import RequirementSource
from kanister_py.ports.tracing import span
from kanister_py.values import NamedTuple


class Settled(NamedTuple):
    """A last answer, and the request that it answers."""

    response: FunctionResponse
    request: FunctionRequest


class SettlingRunner:
    """Fetches what one step's function asks for, and calls it again with that."""

    def __init__(self, inner: Caller, step: Step, source: RequirementSource) -> None:
        self._inner = inner
        self._step = step
        self._source = source

    def run(self, call: FunctionCall) -> FunctionResponse:
        return self.settle(call).response

    def settle(self, call: FunctionCall) -> Settled:
        """Call the function until its answer is the last one; give that with its request.

        A function answers a request, and remembers nothing. So an answer is the last one
        as soon as the next call would be made with the resources that it was made from:
        it asks for the same as the answer before, or for nothing but what the first
        request already held. One that asks for nothing any more is not the last: what it
        was given until now would be missing from the next request, and count.
        """
        request, before, most = call.request, None, self._step.max_iterations
        for number in range(1, most + 2):
            with span(f"round {number}", round=number):
                response = self._inner.run(call._replace(request=request))
            asked = requirements_of(response)
            answered = Settled(response._replace(calls=number), request)
            if response.is_fatal or asked == before:
                return answered
            check_allowed(self._step, asked or {})
            if number > most:
                break
            following = with_fetched(request, call.request, fetch(asked or {}, self._source))
            if number == 1 and following == request:
                return answered
            request, before = following._replace(context=response.context), asked
        raise unsettled(most, before, answered.response)


def fetch(asked: Mapping[str, Any], source: RequirementSource) -> Fetched:
    """Fetch all that is asked for; what is not there stands as an empty message."""
    return Fetched(
        {name: _fetch_resources(each, source) for name, each in _in_order(asked, "resources")},
        {name: _fetch_resources(each, source) for name, each in _in_order(asked, "extraResources")},
        {name: _fetch_schema(each, source) for name, each in _in_order(asked, "schemas")},
    )


def _in_order(asked: Mapping[str, Any], key: str) -> list[tuple[str, Data]]:
    return sorted((asked.get(key) or {}).items())


def _fetch_resources(selector: Mapping[str, Any], source: RequirementSource) -> Data:
    found = source.fetch_resources(selector)
    return {"items": [{"resource": each} for each in found]} if found else {}


def _fetch_schema(selector: Mapping[str, Any], source: RequirementSource) -> Data:
    schema = source.fetch_schema(selector.get("apiVersion", ""), selector.get("kind", ""))
    return {"openapiV3": schema} if schema is not None else {}
