"""Wrappers of a function runner: spans, metrics, tags, timeouts and retries of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.compositions.results import results_of
from kanister_py.core.errors import KanisterError
from kanister_py.core.retries import RetryRule, call_with_retries
from kanister_py.ports.clock import Clock
from kanister_py.ports.function_runner import (
    FunctionAnswerInvalid,
    FunctionCall,
    FunctionMetrics,
    FunctionOverloaded,
    FunctionTimedOut,
    FunctionUnavailable,
)
from kanister_py.ports.tracing import span

Run: TypeAlias = Callable[[FunctionCall], FunctionResponse]
"""What a runner does, and a wrapper around it."""


def traced(inner: Run) -> Run:
    """Make a span of each call that a function really gets."""

    def run(call: FunctionCall) -> FunctionResponse:
        revision = call.revision
        with span(
            f"call {revision.function}",
            is_call=True,
            function=revision.function,
            revision=revision.name,
            endpoint=revision.endpoint,
        ):
            return inner(call)

    return run


_CODES: Final[tuple[tuple[type[KanisterError], str], ...]] = (
    (FunctionUnavailable, "Unavailable"),
    (FunctionOverloaded, "ResourceExhausted"),
    (FunctionTimedOut, "DeadlineExceeded"),
)


def measured(inner: Run, clock: Clock, metrics: FunctionMetrics) -> Run:
    """Count each call that a function really gets: retries too, answers from a cache not."""

    def run(call: FunctionCall) -> FunctionResponse:
        metrics.count_request(call.revision)
        began = clock.monotonic()
        code, worst = "Unknown", "Normal"
        try:
            response = inner(call)
            code, worst = "OK", results_of(call.step, response).worst
            return response
        except KanisterError as error:
            code = next((name for kind, name in _CODES if isinstance(error, kind)), "Unknown")
            raise
        finally:
            metrics.count_response(call.revision, code, worst, clock.monotonic() - began)

    return run


def with_tags_checked(inner: Run) -> Run:
    """Refuse an answer that is to another request.

    A proxy or a function that keeps answers, or mixes up its callers, would have one
    composite resource composed of what was meant for another.
    """

    def run(call: FunctionCall) -> FunctionResponse:
        response = inner(call)
        asked = call.request.tag
        # Functions may leave it out: the protocol lets every field be empty.
        if asked and response.tag and response.tag != asked:
            revision = call.revision
            why = (
                f"it answered another request: its response bears the tag {response.tag!r}, "
                f"the request {asked!r}"
            )
            raise FunctionAnswerInvalid(call.step, revision.function, revision.name, why)
        return response

    return run


def bounded(inner: Run, clock: Clock) -> Run:
    """Give the calls of one step, in all its rounds and retries, its timeout and no more.

    A call that is made again after it took all of that has it anew, as an attempt of a phase.
    """
    ends: float | None = None

    def run(call: FunctionCall) -> FunctionResponse:
        nonlocal ends
        if not call.timeout_seconds:
            return inner(call)
        now = clock.monotonic()
        if ends is None:
            ends = now + call.timeout_seconds
        left = ends - now
        try:
            if left > 0:
                return inner(call._replace(timeout_seconds=left))
            revision = call.revision
            why = f"its calls took more than {call.timeout_seconds:g} s together, its timeout"
            raise FunctionTimedOut(call.step, revision.function, revision.name, why)
        except FunctionTimedOut:
            # Only a retry that names this reason calls again.
            ends = None
            raise

    return run


# A function that took too long is not called again: it would take as long.
_MAY_GO_WELL: Final = frozenset({FunctionUnavailable.reason, FunctionOverloaded.reason})
_MOST: Final = 0.9

STEP_RETRY: Final = RetryRule(3, 0.1, 2.0, 5.0, _MAY_GO_WELL)
"""The rule of a step that has no `retry`."""


def retried(inner: Run, clock: Clock, rule: RetryRule = STEP_RETRY) -> Run:
    """Call again where there was no answer, or the function had no room. Nothing else helps.

    Neither is a function called again that could not be reached in all the time that an
    attempt has. A step that knows better names the reasons itself.
    """

    def run(call: FunctionCall) -> FunctionResponse:
        began = 0.0

        def attempt() -> FunctionResponse:
            nonlocal began
            began = clock.monotonic()
            return inner(call)

        def rest(_: KanisterError, seconds: float) -> bool:
            # A wait for a connection ends a little before the time is up.
            has_waited_out = 0 < _MOST * call.timeout_seconds <= clock.monotonic() - began
            if has_waited_out and rule.on == _MAY_GO_WELL:
                return False
            clock.sleep(seconds)
            return True

        return call_with_retries(attempt, rule, rest)

    return run
