"""Requirements loop: a function is called until it has all it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kanister_py.core.compositions.messages import Data, FunctionRequest, FunctionResponse
from kanister_py.core.compositions.model import Step
from kanister_py.core.compositions.requirements import (
    Fetched,
    check_allowed,
    requirements_not_settled,
    requirements_of,
    with_fetched,
)
from kanister_py.executor.runner_wrappers import Run
from kanister_py.ports.function_runner import FunctionCall
from kanister_py.ports.requirement_source import RequirementSource
from kanister_py.ports.tracing import span


class Settled(NamedTuple):
    """A last answer, and the request that it answers."""

    response: FunctionResponse
    request: FunctionRequest


def settle(call: FunctionCall, run: Run, step: Step, source: RequirementSource) -> Settled:
    """Call a step's function until its answer is the last one; give that with its request.

    A function answers a request, and remembers nothing. So an answer is the last one
    as soon as the next call would be made with the resources that it was made from:
    it asks for the same as the answer before, or for nothing but what the first
    request already held. One that asks for nothing any more is not the last: what it
    was given until now would be missing from the next request, and count.
    """
    request, before, most = call.request, None, step.max_iterations
    for number in range(1, most + 2):
        with span(f"round {number}", round=number):
            response = run(call._replace(request=request))
        asked = requirements_of(response)
        answered = Settled(response._replace(calls=number), request)
        if response.is_fatal or asked == before:
            return answered
        check_allowed(step, asked or {})
        if number > most:
            break
        following = with_fetched(request, call.request, fetch(asked or {}, source))
        if number == 1 and following == request:
            return answered
        request, before = following._replace(context=response.context), asked
    raise requirements_not_settled(most, before, answered.response)


def fetch(asked: Mapping[str, Any], source: RequirementSource) -> Fetched:
    """Fetch all that is asked for; what is not there stands as an empty message."""

    def resources(selector: Data) -> Data:
        found = source.fetch_resources(selector)
        return {"items": [{"resource": each} for each in found]} if found else {}

    def schema(selector: Data) -> Data:
        found = source.fetch_schema(selector.get("apiVersion", ""), selector.get("kind", ""))
        return {"openapiV3": found} if found is not None else {}

    kinds = {"resources": resources, "extraResources": resources, "schemas": schema}
    return Fetched(
        *(
            {name: read(selector) for name, selector in sorted((asked.get(key) or {}).items())}
            for key, read in kinds.items()
        )
    )
