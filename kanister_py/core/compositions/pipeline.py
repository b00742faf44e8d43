"""Pipelines: step conditions (`when`, in CEL), requests, and the state between steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kanister_py.core.compositions.cache_keys import Digests, tag_of
from kanister_py.core.compositions.messages import (
    EMPTY_PART,
    Data,
    FunctionRequest,
    FunctionResponse,
    Part,
)
from kanister_py.core.compositions.model import Step
from kanister_py.core.compositions.requirements import requirements_of
from kanister_py.core.compositions.results import CustomCondition, Event, results_of
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.kube.cel.errors import CelError
from kanister_py.core.kube.cel.expression import compile_cel
from kanister_py.core.notices import Notice, Severity


def error_source(function: str, revision: str, path: str = "") -> str:
    """Return the suffix of an error message that names the function, revision and path."""
    parts = [f"function {function}"] if function else []
    if revision:
        parts.append(f"revision {revision}")
    if path:
        parts.append(f"path {path}")
    return f" ({', '.join(parts)})" if parts else ""


class PipelineFatal(UsageError, reason="PipelineFatal"):
    """A function returned a fatal result, which stops the pipeline."""

    def __init__(self, step: str, function: str, revision: str, result: str) -> None:
        message = f'pipeline step "{step}" returned a fatal result: {result}'
        super().__init__(message + error_source(function, revision))
        self.step = step
        self.function = function
        self.revision = revision
        self.result = result


CAPABILITIES = (
    "CAPABILITY_CAPABILITIES",
    "CAPABILITY_REQUIRED_RESOURCES",
    "CAPABILITY_CREDENTIALS",
    "CAPABILITY_CONDITIONS",
    "CAPABILITY_REQUIRED_SCHEMAS",
)
EXACT = 2**53
"""All whole numbers up to this limit are exact as doubles, which functions use."""


class Observed(NamedTuple):
    """Observed state at the start of a pipeline: the XR and its composed resources by name."""

    composite: Data
    resources: Mapping[str, Data] = {}
    connection_details: Mapping[str, str] = {}
    """Connection details of the XR, in base64."""
    resource_connection_details: Mapping[str, Mapping[str, str]] = {}

    def as_state(self) -> Data:
        composite: Data = {"resource": self.composite}
        if self.connection_details:
            composite["connectionDetails"] = dict(self.connection_details)
        state: Data = {"composite": composite}
        if self.resources:
            resources: dict[str, Data] = {}
            for name in sorted(self.resources):
                resources[name] = {"resource": self.resources[name]}
                details = self.resource_connection_details.get(name)
                if details:
                    resources[name]["connectionDetails"] = dict(details)
            state["resources"] = resources
        return state


class StepOutcome(NamedTuple):
    """Outcome of one step."""

    step: str
    function: str
    revision: str = ""
    seconds: float = 0.0
    calls: int = 0
    worst: str = "Normal"
    """Worst severity: Normal, Warning or Fatal; Error without a response."""
    is_cached: bool = False
    skipped: str = ""
    """Reason why the step was skipped, or an empty string."""

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"step": self.step, "function": self.function}
        if self.skipped:
            return {**data, "skipped": self.skipped}
        data |= {"revision": self.revision, "seconds": round(self.seconds, 6)}
        return {**data, "calls": self.calls, "cached": self.is_cached, "worst": self.worst}


class PipelineState(NamedTuple):
    """State of a pipeline between two steps."""

    observed: Part
    desired: Part = EMPTY_PART
    context: Part = EMPTY_PART
    events: tuple[Event, ...] = ()
    conditions: tuple[CustomCondition, ...] = ()
    outcomes: tuple[StepOutcome, ...] = ()
    notices: tuple[Notice, ...] = ()
    ttl_seconds: float = 0.0
    """Shortest TTL of all responses; zero if none has one."""
    requirements: Mapping[str, Data] = {}
    """Last requirements by step, to be fetched in advance next time."""
    history: tuple[Part, ...] = ()
    """Desired state after every step that has an outcome."""
    error: KanisterError | None = None


def first_state(observed: Observed, context: Data | None = None) -> PipelineState:
    """Return the state before the first step, with an empty desired state."""
    initial = Part(dict(context)) if context else EMPTY_PART
    return PipelineState(Part(observed.as_state()), context=initial)


def request_of(
    step: Step,
    state: PipelineState,
    digests: Digests,
    *,
    credentials: Mapping[str, Data] | None = None,
    resources: Mapping[str, Data] | None = None,
    schemas: Mapping[str, Data] | None = None,
) -> FunctionRequest:
    """Build the first request of a step, with objects that were fetched before the call."""
    request = FunctionRequest(
        observed=state.observed,
        desired=state.desired,
        context=state.context,
        input=step.input,
        credentials=credentials or None,
        required_resources=resources or None,
        required_schemas=schemas or None,
    )
    return request._replace(tag=tag_of(request, digests), capabilities=CAPABILITIES)


def accept(
    step: Step,
    state: PipelineState,
    outcome: StepOutcome,
    response: FunctionResponse,
    ttl_seconds: float,
) -> PipelineState:
    """Return the state after a step's response, which replaces the desired state and the context.

    After a fatal result the state has an error, and the results before the fatal one.
    """
    results = results_of(step.name, response)
    error: KanisterError | None = None
    if results.fatal is not None:
        error = PipelineFatal(step.name, step.function, outcome.revision, results.fatal)
    times = [seconds for seconds in (state.ttl_seconds, ttl_seconds) if seconds > 0]
    requirements = state.requirements
    required = requirements_of(response)
    if required is not None:
        requirements = {**requirements, step.name: required}
    return state._replace(
        desired=response.desired,
        context=response.context,
        events=(*state.events, *results.events),
        conditions=(*state.conditions, *results.conditions),
        outcomes=(
            *state.outcomes,
            outcome._replace(
                worst=results.worst, calls=response.calls, is_cached=response.calls == 0
            ),
        ),
        ttl_seconds=min(times, default=0.0),
        requirements=requirements,
        history=(*state.history, response.desired),
        error=error,
    )


def skip_reason(when: str, state: PipelineState) -> str:
    """Evaluate the CEL condition of a step; return why it is skipped, or an empty string.

    The variables are `observed`, `desired` and `context`, in the form that functions receive,
    except that missing maps are replaced by empty ones.
    """
    if not when or when == "true":
        return ""
    if when == "false":
        return "its when is false"
    is_due = compile_cel(when).evaluate(
        {
            "observed": {"resources": {}, **state.observed.data},
            "desired": {"composite": {}, "resources": {}, **state.desired.data},
            "context": state.context.data,
        }
    )
    if not isinstance(is_due, bool):
        raise CelError(when, f"it must be true or false, found {is_due!r}")
    return "" if is_due else f"its when is false: {when}"


def skip(step: Step, state: PipelineState, why: str) -> PipelineState:
    """Return the state after a skipped step, with a notice."""
    outcome = StepOutcome(step.name, step.function, skipped=why)
    notice = Notice("StepSkipped", f"step {step.name} is skipped: {why}", Severity.INFO)
    return state._replace(
        outcomes=(*state.outcomes, outcome),
        history=(*state.history, state.desired),
        notices=(*state.notices, notice),
    )


def with_warnings(step: Step, state: PipelineState, notices: Iterable[Notice]) -> PipelineState:
    """Return the state with notices about the choice of a step's function."""
    placed = tuple(
        notice._replace(
            message=f'Pipeline step "{step.name}": {notice.message}',
            facts={**notice.facts, "step": step.name},
        )
        for notice in notices
    )
    return state._replace(notices=(*state.notices, *placed))


def failed_state(
    step: Step, state: PipelineState, revision: str, error: KanisterError
) -> PipelineState:
    """Return the state after a step without a response. Earlier results are kept."""
    outcome = StepOutcome(step.name, step.function, revision, worst="Error")
    return state._replace(
        outcomes=(*state.outcomes, outcome), history=(*state.history, EMPTY_PART), error=error
    )


def origin_of(resource: str, state: PipelineState) -> tuple[str, str, str]:
    """Return the step, function and revision that last changed a desired resource."""
    final = _resource_in(state.desired, resource)
    origin = ("", "", "")
    before: Any = None
    for outcome, desired in zip(state.outcomes, state.history, strict=True):
        after = _resource_in(desired, resource)
        if after != before and after == final:
            origin = (outcome.step, outcome.function, outcome.revision)
        before = after
    return origin


def _resource_in(desired: Part, resource: str) -> Any:
    resources = desired.data.get("resources")
    return resources.get(resource) if isinstance(resources, dict) else None


def is_inexact(number: int) -> bool:
    """Return whether a whole number cannot be represented as a double."""
    return (number > EXACT or number < -EXACT) and int(float(number)) != number


def inexact_numbers(value: Any, path: str) -> Iterable[str]:
    """Return the paths of whole numbers that are rounded for functions, which use doubles."""
    # Such numbers are rare, so the paths are only built if there is one.
    waiting = [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is dict:
            waiting += item.values()
        elif kind is list:
            waiting += item
        elif kind is int and not -EXACT <= item <= EXACT and is_inexact(item):
            return _inexact_paths(value, path)
    return ()


def _inexact_paths(value: Any, path: str) -> Iterator[str]:
    kind = type(value)
    if kind is int:
        if is_inexact(value):
            yield path
    elif kind is dict:
        for key, part in value.items():
            yield from _inexact_paths(part, f"{path}.{key}")
    elif kind is list:
        for index, item in enumerate(value):
            yield from _inexact_paths(item, f"{path}[{index}]")


def as_doubles(value: Any) -> Any:
    """Round whole numbers to doubles, so that in-process functions get the same values."""
    if isinstance(value, dict):
        return {key: as_doubles(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_doubles(item) for item in value]
    return int(float(value)) if type(value) is int else value


def notice_of_number(path: str) -> Notice:
    return Notice(
        "InexactNumber",
        f"{path} cannot be represented as a double, so functions get a rounded number; "
        "use a string",
        facts={"path": path},
    )
