"""Retries of a step's call: which failed calls of a composition function are made again."""

from __future__ import annotations

from typing import Final

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.errors import KanisterError
from kanister_py.core.retries import RetryRule
from kanister_py.executor.insist import insist
from kanister_py.ports.clock import Clock
from kanister_py.ports.function_runner import (
    FunctionCall,
    FunctionOverloaded,
    FunctionRunner,
    FunctionTimedOut,
    FunctionUnavailable,
)

# A function that took too long is not called again: it would take as long.
_MAY_GO_WELL: Final = frozenset({FunctionUnavailable.reason, FunctionOverloaded.reason})

STEP_RETRY: Final = RetryRule(3, 0.1, 2.0, 5.0, _MAY_GO_WELL)
"""What holds for a step that says nothing of retries."""

_MOST: Final = 0.9


class BoundedRunner:
    """Gives the calls of one step, in all its rounds and retries, its timeout and no more.

    A call that is made again after it took all of that has it anew, as an attempt of a phase.
    """

    def __init__(self, inner: FunctionRunner, clock: Clock) -> None:
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

    def close(self) -> None:
        self._inner.close()


class RetryingRunner:
    """Calls again where there was no answer, or the function had no room. Nothing else helps.

    Neither is a function called again that could not be reached in all the time that an
    attempt has. A step that knows better names the reasons itself.
    """

    def __init__(self, inner: FunctionRunner, clock: Clock, rule: RetryRule = STEP_RETRY) -> None:
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
        # Who waits for a connection gives up a little before the time is up.
        return 0 < _MOST * call.timeout_seconds <= self._clock.monotonic() - began

    def close(self) -> None:
        self._inner.close()
