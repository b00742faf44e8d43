"""Calls a function until it has all it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kanister_py.core.compositions.messages import Data, FunctionRequest, FunctionResponse
from kanister_py.core.compositions.model import Step
from kanister_py.core.compositions.requirements import Fetched, Settling
from kanister_py.ports.function_runner import FunctionCall, FunctionRunner
from kanister_py.ports.requirement_source import RequirementSource


class Settled(NamedTuple):
    """A last answer, and the request that it answers."""

    response: FunctionResponse
    request: FunctionRequest


class SettlingRunner:
    """Fetches what one step's function asks for, and calls it again with that."""

    def __init__(self, inner: FunctionRunner, step: Step, source: RequirementSource) -> None:
        self._inner = inner
        self._step = step
        self._source = source

    def run(self, call: FunctionCall) -> FunctionResponse:
        return self.settle(call).response

    def settle(self, call: FunctionCall) -> Settled:
        """Give the last answer together with the request that led to it."""
        course = Settling(self._step, call.request)
        while True:
            response = self._inner.run(call._replace(request=course.request))
            asked = course.next(response)
            if asked is None or not course.give(response, fetch(asked, self._source)):
                return Settled(response._replace(calls=course.calls), course.request)

    def close(self) -> None:
        self._inner.close()


def fetch(asked: Mapping[str, Any], source: RequirementSource) -> Fetched:
    """Fetch all that is asked for; what is not there stands as an empty message."""
    return Fetched(
        {name: fetch_resources(each, source) for name, each in _in_order(asked, "resources")},
        {name: fetch_resources(each, source) for name, each in _in_order(asked, "extraResources")},
        {name: fetch_schema(each, source) for name, each in _in_order(asked, "schemas")},
    )


def _in_order(asked: Mapping[str, Any], key: str) -> list[tuple[str, Data]]:
    return sorted((asked.get(key) or {}).items())


def fetch_resources(selector: Mapping[str, Any], source: RequirementSource) -> Data:
    found = source.fetch_resources(selector)
    return {"items": [{"resource": each} for each in found]} if found else {}


def fetch_schema(selector: Mapping[str, Any], source: RequirementSource) -> Data:
    schema = source.fetch_schema(selector.get("apiVersion", ""), selector.get("kind", ""))
    return {"openapiV3": schema} if schema is not None else {}
