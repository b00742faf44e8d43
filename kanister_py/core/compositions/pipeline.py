"""Pipeline: step conditions (`when`, in CEL), requests, and the state after each answer."""

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
    """Name the function to blame, as far as it is known, at the end of a message."""
    parts = [f"function {function}"] if function else []
    if revision:
        parts.append(f"revision {revision}")
    if path:
        parts.append(f"path {path}")
    return f" ({', '.join(parts)})" if parts else ""


class PipelineFatal(UsageError, reason="PipelineFatal"):
    """A function says itself that the pipeline must not go on."""

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


class Observed(NamedTuple):
    """State when a pipeline starts: the XR, and the resources it composed before, by name."""

    composite: Data
    resources: Mapping[str, Data] = {}
    connection_details: Mapping[str, str] = {}
    """Of the XR, in base64; those of its resources are by the resource's name."""
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
    """Normal, Warning or Fatal; Error if it brought no answer."""
    is_cached: bool = False
    skipped: str = ""
    """The reason why it was not run; empty if it was."""

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
    """The shortest time that any answer holds; zero if none says."""
    requirements: Mapping[str, Data] = {}
    """The last requirements of each step, to fetch beforehand another time."""
    history: tuple[Part, ...] = ()
    """The desired state after each step that has an outcome."""
    error: KanisterError | None = None


def first_state(observed: Observed, context: Data | None = None) -> PipelineState:
    """Give the state before the first step: nothing is desired yet."""
    started = Part(dict(context)) if context else EMPTY_PART
    return PipelineState(Part(observed.as_state()), context=started)


def request_of(
    step: Step,
    state: PipelineState,
    digests: Digests,
    *,
    credentials: Mapping[str, Data] | None = None,
    resources: Mapping[str, Data] | None = None,
    schemas: Mapping[str, Data] | None = None,
) -> FunctionRequest:
    """Make the request of a step: the state, and what was fetched for it beforehand."""
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
    """Take a step's answer: it replaces what was desired before, and the context.

    After a fatal result the state holds an error, and the results up to it.
    """
    results = results_of(step.name, response)
    error: KanisterError | None = None
    if results.fatal is not None:
        error = PipelineFatal(step.name, step.function, outcome.revision, results.fatal)
    times = [each for each in (state.ttl_seconds, ttl_seconds) if each > 0]
    requirements = state.requirements
    asked = requirements_of(response)
    if asked is not None:
        requirements = {**requirements, step.name: asked}
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
    """Say why a step is left out, by what CEL makes of its `when`; empty if its turn has come.

    The expression sees `observed`, `desired` and `context` as a function would; maps of
    resources in which there is nothing are there for it, and empty.
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
        raise CelError(when, f"it must say true or false, and says {is_due!r}")
    return "" if is_due else f"its when is false: {when}"


def skip(step: Step, state: PipelineState, why: str) -> PipelineState:
    """Leave a step out, and say so."""
    outcome = StepOutcome(step.name, step.function, skipped=why)
    notice = Notice("StepSkipped", f"step {step.name} is skipped: {why}", Severity.INFO)
    return state._replace(
        outcomes=(*state.outcomes, outcome),
        history=(*state.history, state.desired),
        notices=(*state.notices, notice),
    )


def with_warnings(step: Step, state: PipelineState, notices: Iterable[Notice]) -> PipelineState:
    """Take in the notices of the choice of a step's function."""
    placed = tuple(
        each._replace(
            message=f'Pipeline step "{step.name}": {each.message}',
            facts={**each.facts, "step": step.name},
        )
        for each in notices
    )
    return state._replace(notices=(*state.notices, *placed))


def failed_state(
    step: Step, state: PipelineState, revision: str, error: KanisterError
) -> PipelineState:
    """Stop at a step that brings no answer. What was gathered stays."""
    outcome = StepOutcome(step.name, step.function, revision, worst="Error")
    return state._replace(
        outcomes=(*state.outcomes, outcome), history=(*state.history, EMPTY_PART), error=error
    )


def origin_of(resource: str, state: PipelineState) -> tuple[str, str, str]:
    """Say which step made a desired resource what it is: step, function and revision."""
    final = _resource_in(state.desired, resource)
    found = ("", "", "")
    before: Any = None
    for outcome, desired in zip(state.outcomes, state.history, strict=True):
        after = _resource_in(desired, resource)
        if after != before and after == final:
            found = (outcome.step, outcome.function, outcome.revision)
        before = after
    return found


def _resource_in(desired: Part, resource: str) -> Any:
    resources = desired.data.get("resources")
    return resources.get(resource) if isinstance(resources, dict) else None


def is_inexact(number: int) -> bool:
    """Say whether a double cannot hold a whole number."""
    return (number > EXACT or number < -EXACT) and int(float(number)) != number


def inexact_numbers(value: Any, path: str) -> Iterable[str]:
    """Find the whole numbers that a double cannot hold, which is what functions get."""
    # Nearly nothing has one: what has none is gone through without a word about places.
    waiting = [value]
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind is dict:
            waiting += each.values()
        elif kind is list:
            waiting += each
        elif kind is int and not -EXACT <= each <= EXACT and is_inexact(each):
            return _places_of_inexact(value, path)
    return ()


def _places_of_inexact(value: Any, path: str) -> Iterator[str]:
    kind = type(value)
    if kind is int:
        if is_inexact(value):
            yield path
    elif kind is dict:
        for key, each in value.items():
            yield from _places_of_inexact(each, f"{path}.{key}")
    elif kind is list:
        for index, each in enumerate(value):
            yield from _places_of_inexact(each, f"{path}[{index}]")


def as_doubles(value: Any) -> Any:
    """Give data with its whole numbers as doubles hold them, however a function is called."""
    if isinstance(value, dict):
        return {key: as_doubles(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_doubles(each) for each in value]
    return int(float(value)) if type(value) is int else value


def notice_of_number(path: str) -> Notice:
    return Notice(
        "InexactNumber",
        f"{path} is a whole number that a double cannot hold: functions get a rounded one; "
        "write it as text",
        facts={"path": path},
    )
