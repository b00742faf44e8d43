"""Calls again what may go well the next time."""

from __future__ import annotations

from typing import NamedTuple

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.ports.clock import Clock
from kanister_py.ports.function_runner import (
    FunctionCall,
    FunctionCallError,
    FunctionOverloaded,
    FunctionRunner,
    FunctionUnavailable,
)


class Backoff(NamedTuple):
    """How often a call is made at most, after which errors, and with how long a wait."""

    attempts: int = 4
    first_seconds: float = 0.1
    factor: float = 2.0
    longest_seconds: float = 5.0
    on: tuple[str, ...] = ()
    """Reasons of errors; without any, those after which the same call may go well."""

    def delay_before(self, attempt: int) -> float:
        """Say how long to wait before an attempt, the second being number 1."""
        return min(self.first_seconds * self.factor ** (attempt - 1), self.longest_seconds)

    def is_for(self, error: FunctionCallError) -> bool:
        """Say whether a call is made again after an error."""
        if self.on:
            return error.reason in self.on
        return isinstance(error, FunctionUnavailable | FunctionOverloaded)


DEFAULT_BACKOFF = Backoff()
_MOST = 0.9


class RetryingRunner:
    """Calls again where nobody answered, or the function had no room. Nothing else helps.

    A function that took too long is not called again: it would take as long. Neither is
    one that nobody could reach in all the time that an attempt has. A step that knows
    better names the reasons itself.
    """

    def __init__(
        self, inner: FunctionRunner, clock: Clock, backoff: Backoff = DEFAULT_BACKOFF
    ) -> None:
        self._inner = inner
        self._clock = clock
        self._backoff = backoff

    def run(self, call: FunctionCall) -> FunctionResponse:
        attempt = 0
        while True:
            attempt += 1
            began = self._clock.monotonic()
            try:
                return self._inner.run(call)
            except FunctionCallError as error:
                if attempt >= self._backoff.attempts or not self._backoff.is_for(error):
                    raise
                if not self._backoff.on and self._has_waited_out(call, began):
                    raise
                delay = max(self._backoff.delay_before(attempt), error.delay_seconds)
            self._clock.sleep(delay)

    def _has_waited_out(self, call: FunctionCall, began: float) -> bool:
        # Who waits for a connection gives up a little before the time is up.
        return 0 < _MOST * call.timeout_seconds <= self._clock.monotonic() - began

    def close(self) -> None:
        self._inner.close()
