"""Requirements loop: a function is called until all of its requirements are met."""

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
    """A final response, and the request of that last call."""

    response: FunctionResponse
    request: FunctionRequest


def settle(call: FunctionCall, run: Run, step: Step, source: RequirementSource) -> Settled:
    """Call a step's function until its response is final; return it with its request.

    Functions have no memory between calls. A response is therefore final as soon as the next
    request would contain the same resources: the function has the same requirements as
    before, or only requirements that the first request already met. A response without
    requirements is not final if resources were fetched for its request, because the next request
    would not contain them.
    """
    request, before, most = call.request, None, step.max_iterations
    for number in range(1, most + 2):
        with span(f"round {number}", round=number):
            response = run(call._replace(request=request))
        requirements = requirements_of(response)
        answered = Settled(response._replace(calls=number), request)
        if response.is_fatal or requirements == before:
            return answered
        check_allowed(step, requirements or {})
        if number > most:
            break
        following = with_fetched(request, call.request, fetch(requirements or {}, source))
        if number == 1 and following == request:
            return answered
        request, before = following._replace(context=response.context), requirements
    raise requirements_not_settled(most, before, answered.response)


def fetch(requirements: Mapping[str, Any], source: RequirementSource) -> Fetched:
    """Fetch all required resources; missing ones are represented by an empty message."""

    def resources(selector: Data) -> Data:
        fetched = source.fetch_resources(selector)
        return {"items": [{"resource": resource} for resource in fetched]} if fetched else {}

    def schema(selector: Data) -> Data:
        fetched = source.fetch_schema(selector.get("apiVersion", ""), selector.get("kind", ""))
        return {"openapiV3": fetched} if fetched is not None else {}

    kinds = {"resources": resources, "extraResources": resources, "schemas": schema}
    return Fetched(
        *(
            {
                name: read(selector)
                for name, selector in sorted((requirements.get(key) or {}).items())
            }
            for key, read in kinds.items()
        )
    )
