"""Wrappers of a function runner: records, spans, metrics, tags, timeouts and retries of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.compositions.results import results_of
from kanister_py.core.errors import KanisterError
from kanister_py.core.retries import RetryRule
from kanister_py.executor.insist import insist
from kanister_py.ports.clock import Clock
from kanister_py.ports.function_metrics import FunctionMetrics
from kanister_py.ports.function_runner import (
    Caller,
    FunctionAnswerInvalid,
    FunctionCall,
    FunctionOverloaded,
    FunctionTimedOut,
    FunctionUnavailable,
)
from kanister_py.ports.tracing import span
from kanister_py.values import NamedTuple


class Record(NamedTuple):
    """One call as the pipeline made it, whatever became of it below."""

    call: FunctionCall
    seconds: float
    response: FunctionResponse | None = None
    error: KanisterError | None = None


class RecordingRunner:
    """Hands a record of each call to a listener."""

    def __init__(self, inner: Caller, clock: Clock, note: Callable[[Record], None]) -> None:
        self._inner = inner
        self._clock = clock
        self._note = note

    def run(self, call: FunctionCall) -> FunctionResponse:
        began = self._clock.monotonic()
        try:
            response = self._inner.run(call)
        except KanisterError as error:
            self._note(Record(call, self._clock.monotonic() - began, error=error))
            raise
        self._note(Record(call, self._clock.monotonic() - began, response))
        return response


class TracingRunner:
    """Makes a span of each call that a function really gets."""

    def __init__(self, inner: Caller) -> None:
        self._inner = inner

    def run(self, call: FunctionCall) -> FunctionResponse:
        revision = call.revision
        with span(
            f"call {revision.function}",
            is_call=True,
            function=revision.function,
            revision=revision.name,
            endpoint=revision.endpoint,
        ):
            return self._inner.run(call)


_CODES: Final[tuple[tuple[type[KanisterError], str], ...]] = (
    (FunctionUnavailable, "Unavailable"),
    (FunctionOverloaded, "ResourceExhausted"),
    (FunctionTimedOut, "DeadlineExceeded"),
)


class MeasuringRunner:
    """Counts each call that a function really gets: retries too, answers from a cache not."""

    def __init__(self, inner: Caller, clock: Clock, metrics: FunctionMetrics) -> None:
        self._inner = inner
        self._clock = clock
        self._metrics = metrics

    def run(self, call: FunctionCall) -> FunctionResponse:
        self._metrics.count_request(call.revision)
        began = self._clock.monotonic()
        code, worst = "Unknown", "Normal"
        try:
            response = self._inner.run(call)
            code, worst = "OK", results_of(call.step, response).worst
            return response
        except KanisterError as error:
            code = next((name for kind, name in _CODES if isinstance(error, kind)), "Unknown")
            raise
        finally:
            seconds = self._clock.monotonic() - began
            self._metrics.count_response(call.revision, code, worst, seconds)


class TagCheckingRunner:
    """Refuses an answer that is to another request.

    A proxy or a function that keeps answers, or mixes up its callers, would have one
    composite resource composed of what was meant for another.
    """

    def __init__(self, inner: Caller) -> None:
        self._inner = inner

    def run(self, call: FunctionCall) -> FunctionResponse:
        response = self._inner.run(call)
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


class BoundedRunner:
    """Gives the calls of one step, in all its rounds and retries, its timeout and no more.

    A call that is made again after it took all of that has it anew, as an attempt of a phase.
    """

    def __init__(self, inner: Caller, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._ends: float | None = None

    def run(self, call: FunctionCall) -> FunctionResponse:
        if not call.timeout_seconds:
            return self._inner.run(call)
        now = self._clock.monotonic()
        if self._ends is None:
            self._ends = now + call.timeout_seconds
        left = self._ends - now
        try:
            if left > 0:
                return self._inner.run(call._replace(timeout_seconds=left))
            revision = call.revision
            why = f"its calls took more than {call.timeout_seconds:g} s together, its timeout"
            raise FunctionTimedOut(call.step, revision.function, revision.name, why)
        except FunctionTimedOut:
            # Only a retry that names this reason calls again.
            self._ends = None
            raise


# A function that took too long is not called again: it would take as long.
_MAY_GO_WELL: Final = frozenset({FunctionUnavailable.reason, FunctionOverloaded.reason})
_MOST: Final = 0.9

STEP_RETRY: Final = RetryRule(3, 0.1, 2.0, 5.0, _MAY_GO_WELL)
"""The rule of a step that has no `retry`."""


class RetryingRunner:
    """Calls again where there was no answer, or the function had no room. Nothing else helps.

    Neither is a function called again that could not be reached in all the time that an
    attempt has. A step that knows better names the reasons itself.
    """

    def __init__(self, inner: Caller, clock: Clock, rule: RetryRule = STEP_RETRY) -> None:
        self._inner = inner
        self._clock = clock
        self._rule = rule

    def run(self, call: FunctionCall) -> FunctionResponse:
        began = 0.0

        def attempt() -> FunctionResponse:
            nonlocal began
            began = self._clock.monotonic()
            return self._inner.run(call)

        def rest(_: KanisterError, seconds: float) -> bool:
            if self._rule.on == _MAY_GO_WELL and self._has_waited_out(call, began):
                return False
            self._clock.sleep(seconds)
            return True

        return insist(attempt, self._rule, rest)

    def _has_waited_out(self, call: FunctionCall, began: float) -> bool:
        # A wait for a connection ends a little before the time is up.
        return 0 < _MOST * call.timeout_seconds <= self._clock.monotonic() - began
