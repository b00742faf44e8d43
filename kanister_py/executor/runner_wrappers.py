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
"""Interface of a runner and of its wrappers."""


def traced(inner: Run) -> Run:
    """Create a span for each call that reaches a function."""

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
    """Count each call that reaches a function, including retries, but not cached responses."""

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
    """Refuse a response to another request.

    A proxy or function that confuses its callers would otherwise compose one composite
    resource from the response for another one.
    """

    def run(call: FunctionCall) -> FunctionResponse:
        response = inner(call)
        sent_tag = call.request.tag
        # The tag is optional because all fields of the protocol are.
        if sent_tag and response.tag and response.tag != sent_tag:
            revision = call.revision
            why = (
                f"it answered another request: its response has the tag {response.tag!r}, "
                f"the request {sent_tag!r}"
            )
            raise FunctionAnswerInvalid(call.step, revision.function, revision.name, why)
        return response

    return run


def bounded(inner: Run, clock: Clock) -> Run:
    """Limit the total time of all rounds and retries of a step to its timeout.

    A retry after a timeout gets the full time again, like a new attempt of a phase. The wrapper
    has a state, so every run of a step needs a new one.
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
            why = f"its calls together took more than its timeout of {call.timeout_seconds:g} s"
            raise FunctionTimedOut(call.step, revision.function, revision.name, why)
        except FunctionTimedOut:
            # Another call follows only if the retry rule lists timeouts.
            ends = None
            raise

    return run


# A call that timed out is not repeated by default because it would time out again.
_RETRIED_REASONS: Final = frozenset({FunctionUnavailable.reason, FunctionOverloaded.reason})
_MOST: Final = 0.9

STEP_RETRY: Final = RetryRule(3, 0.1, 2.0, 5.0, _RETRIED_REASONS)
"""Retry rule of a step without `retry`."""


def retried(inner: Run, clock: Clock, rule: RetryRule = STEP_RETRY) -> Run:
    """Retry calls that were not answered, or that an overloaded function refused.

    A function that could not be reached within the whole time of an attempt is not called
    again, unless the step's retry rule names the reason.
    """

    def run(call: FunctionCall) -> FunctionResponse:
        began = 0.0

        def attempt() -> FunctionResponse:
            nonlocal began
            began = clock.monotonic()
            return inner(call)

        def rest(_: KanisterError, seconds: float) -> bool:
            # Waiting for a connection ends slightly before the timeout.
            has_timed_out = 0 < _MOST * call.timeout_seconds <= clock.monotonic() - began
            if has_timed_out and rule.on == _RETRIED_REASONS:
                return False
            clock.sleep(seconds)
            return True

        return call_with_retries(attempt, rule, rest)

    return run
