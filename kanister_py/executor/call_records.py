"""Records of calls: what each was asked and answered, and how long it took."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.compositions.results import said_by
from kanister_py.core.errors import KanisterError
from kanister_py.ports.clock import Clock
from kanister_py.ports.function_metrics import FunctionMetrics
from kanister_py.ports.function_runner import (
    FunctionCall,
    FunctionOverloaded,
    FunctionRunner,
    FunctionTimedOut,
    FunctionUnavailable,
)
from kanister_py.ports.tracing import span


class Record(NamedTuple):
    """One call as the pipeline made it, whatever became of it below."""

    call: FunctionCall
    seconds: float
    response: FunctionResponse | None = None
    error: KanisterError | None = None


class RecordingRunner:
    """Hands a record of each call to a listener."""

    def __init__(self, inner: FunctionRunner, clock: Clock, note: Callable[[Record], None]) -> None:
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

    def close(self) -> None:
        self._inner.close()


_CODES: tuple[tuple[type[KanisterError], str], ...] = (
    (FunctionUnavailable, "Unavailable"),
    (FunctionOverloaded, "ResourceExhausted"),
    (FunctionTimedOut, "DeadlineExceeded"),
)


class TracingRunner:
    """Makes a span of each call that a function really gets."""

    def __init__(self, inner: FunctionRunner) -> None:
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

    def close(self) -> None:
        self._inner.close()


class MeasuringRunner:
    """Counts each call that a function really gets: retries too, answers from a cache not."""

    def __init__(self, inner: FunctionRunner, clock: Clock, metrics: FunctionMetrics) -> None:
        self._inner = inner
        self._clock = clock
        self._metrics = metrics

    def run(self, call: FunctionCall) -> FunctionResponse:
        self._metrics.count_request(call.revision)
        began = self._clock.monotonic()
        code, worst = "Unknown", "Normal"
        try:
            response = self._inner.run(call)
            code, worst = "OK", said_by(call.step, response).worst
            return response
        except KanisterError as error:
            code = next((name for kind, name in _CODES if isinstance(error, kind)), "Unknown")
            raise
        finally:
            seconds = self._clock.monotonic() - began
            self._metrics.count_response(call.revision, code, worst, seconds)

    def close(self) -> None:
        self._inner.close()
