"""Circuit breakers: a function that does not respond is only called by one trial at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Generic, TypeVar

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.errors import TransientError
from kanister_py.executor.timers import Timer, TimerService
from kanister_py.ports.clock import Clock
from kanister_py.ports.function_runner import FunctionCall, FunctionCallError, FunctionRunner

_LOG: Final = logging.getLogger(__name__)

_FAILURES: Final = 3
_NEW_SECONDS: Final = 4.0
"""A revision that has never responded is paused after one call that failed after this long."""
_LEAST_SECONDS: Final = 1.0
"""Minimum duration of failures before a function is paused. Replacing its pod takes less."""
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 4.0
_TRIAL_SECONDS: Final = 4.0
"""Minimum timeout of a trial call. It is short, because no other trial starts before its end."""
_LONGEST_TRIAL_SECONDS: Final = 64.0

Key = TypeVar("Key", bound=Hashable)


class FunctionPaused(FunctionCallError, TransientError, reason="FunctionPaused"):
    """A function has not responded to several calls, and is not called for some seconds."""


@dataclass(slots=True, eq=False, repr=False)
class _Circuit(Generic[Key]):
    """Failures of one revision of a function, and the keys that wait for it."""

    failures: int = 0
    since: float = 0.0
    """Monotonic start of the first of the consecutive calls that failed."""
    why: str = ""
    is_open: bool = False
    pause_seconds: float = _FIRST_PAUSE_SECONDS
    next_try: float = 0.0
    is_tried: bool = False
    trial_seconds: float = _TRIAL_SECONDS
    waiting: dict[Key, None] = field(default_factory=dict)
    timer: Timer | None = None


class Breakers(Generic[Key]):
    """Circuit breakers of function revisions, and the composite resources that wait for them.

    All waiting keys are queued again as soon as the function responds. Until then, one of them
    is queued every few seconds, and its call is the trial call. Thread-safe.
    """

    def __init__(self, clock: Clock, timers: TimerService, requeue: Callable[[Key], None]) -> None:
        self._clock = clock
        self._timers = timers
        self._requeue = requeue
        self._lock = Lock()
        self._circuits: dict[str, _Circuit[Key]] = {}
        self._slowest: dict[str, float] = {}
        """Maximum response time of each revision. Contains all revisions that have responded."""
        self._proven: set[str] = set()
        """Functions whose most recently called revision has responded at least once."""

    @property
    def open_count(self) -> int:
        with self._lock:
            return sum(circuit.is_open for circuit in self._circuits.values())

    def why_paused(self, revision: str) -> str:
        """Return why a revision may not be called now, or an empty text if it may.

        If a trial call is due, an empty text is returned once: the caller must make the call.
        """
        with self._lock:
            circuit = self._circuits.get(revision)
            if circuit is None or not circuit.is_open:
                return ""
            if not circuit.is_tried and self._clock.monotonic() >= circuit.next_try:
                circuit.is_tried = True
                return ""
            return circuit.why

    def trial_seconds(self, revision: str) -> float:
        """Return the timeout of a trial call of a revision; zero if the next call is no trial.

        It is twice the maximum response time of the revision, within a minimum. If the revision has
        never responded, the timeout doubles with each trial, and starts over after the maximum.
        """
        with self._lock:
            circuit = self._circuits.get(revision)
            if circuit is None or not circuit.is_open:
                return 0.0
            slowest = self._slowest.get(revision)
            return circuit.trial_seconds if slowest is None else max(_TRIAL_SECONDS, 2 * slowest)

    def has_answered(self, revision: str) -> bool:
        """Return whether a revision has responded to a call of this process."""
        return revision in self._slowest

    def is_proven(self, function: str) -> bool:
        """Return whether the most recently called revision of a function has responded before."""
        return function in self._proven

    def record_call(self, function: str, revision: str) -> None:
        """Record the end of a call. Call this after `record_failure` or `record_answer`."""
        with self._lock:
            (self._proven.add if self.has_answered(revision) else self._proven.discard)(function)

    def record_failure(self, revision: str, why: str, seconds: float = 0.0) -> None:
        """Count a call that failed after this many seconds, and open the circuit if necessary."""
        now = self._clock.monotonic()
        with self._lock:
            circuit = self._circuits.setdefault(revision, _Circuit())
            if not circuit.failures:
                circuit.since = now - seconds
            circuit.failures += 1
            circuit.is_tried = False
            is_bad = circuit.failures >= _FAILURES and now - circuit.since >= _LEAST_SECONDS
            is_bad |= seconds >= _NEW_SECONDS and not self.has_answered(revision)
            if circuit.is_open:
                circuit.pause_seconds = min(circuit.pause_seconds * 2, _LONGEST_PAUSE_SECONDS)
                circuit.trial_seconds *= 2
                if circuit.trial_seconds > _LONGEST_TRIAL_SECONDS:
                    circuit.trial_seconds = _TRIAL_SECONDS
            elif is_bad:
                circuit.is_open = True
                circuit.why = why
                _LOG.warning("%s is not called for now: %s", revision, why)
            else:
                return
            circuit.next_try = now + circuit.pause_seconds
            self._set_timer(revision, circuit)

    def record_answer(self, revision: str, seconds: float = 0.0) -> None:
        """Close the circuit of a revision that responded, and queue the keys that wait for it."""
        with self._lock:
            if seconds > self._slowest.get(revision, -1.0):
                self._slowest[revision] = seconds
            # Usually there are no circuits, because most calls succeed.
            circuit = self._circuits.pop(revision, None) if self._circuits else None
            if circuit is None:
                return
            if circuit.timer is not None:
                circuit.timer.cancel()
        if circuit.is_open:
            _LOG.info("%s responds again", revision)
        for key in circuit.waiting:
            self._requeue(key)

    def forget(self, function: str, revision: str) -> None:
        """Forget the responses of a revision whose pods were replaced, and close its circuit.

        The function does not count as proven until it responds again.
        """
        self.record_answer(revision)
        with self._lock:
            self._slowest.pop(revision, None)
            self._proven.discard(function)

    def hold(self, revision: str, key: Key) -> bool:
        """Let a key wait until a revision responds. Returns False if its circuit is closed."""
        with self._lock:
            circuit = self._circuits.get(revision)
            if circuit is None or not circuit.is_open:
                return False
            circuit.waiting[key] = None
            self._set_timer(revision, circuit)
            return True

    def _set_timer(self, revision: str, circuit: _Circuit[Key]) -> None:
        if circuit.waiting and (circuit.timer is None or circuit.timer.is_cancelled):
            seconds = max(0.0, circuit.next_try - self._clock.monotonic())
            circuit.timer = self._timers.call_later(seconds, lambda: self._try(revision))

    def _try(self, revision: str) -> None:
        """Queue one of the waiting keys, whose call is the trial call."""
        with self._lock:
            circuit = self._circuits.get(revision)
            if circuit is None:
                return

            circuit.timer = None
            if not circuit.waiting:
                return
            key = next(iter(circuit.waiting))
            del circuit.waiting[key]
            circuit.next_try = self._clock.monotonic()
            # Reconciling this key may not call the function. Then the next key is queued.
            circuit.timer = self._timers.call_later(
                _LONGEST_PAUSE_SECONDS, lambda: self._try(revision)
            )
        self._requeue(key)


class GuardedRunner(Generic[Key]):
    """Runner that immediately refuses calls of functions that do not respond."""

    def __init__(self, inner: FunctionRunner, breakers: Breakers[Key], clock: Clock) -> None:
        self._inner = inner
        self._breakers = breakers
        self._clock = clock

    def run(self, call: FunctionCall) -> FunctionResponse:
        revision = call.revision.name
        why = self._breakers.why_paused(revision)
        if why:
            raise FunctionPaused(call.step, call.revision.function, revision, why)
        limit = self._breakers.trial_seconds(revision)
        if limit:
            call = call._replace(timeout_seconds=min(call.timeout_seconds or limit, limit))
        try:
            return self._run(call)
        finally:
            self._breakers.record_call(call.revision.function, revision)

    def _run(self, call: FunctionCall) -> FunctionResponse:
        revision = call.revision.name
        began = self._clock.monotonic()
        try:
            response = self._inner.run(call)
        except FunctionCallError as error:
            if isinstance(error, TransientError):
                seconds = self._clock.monotonic() - began
                self._breakers.record_failure(revision, error.why, seconds)
            else:
                # An error that is not transient came from the function, so it has responded.
                self._breakers.record_answer(revision)
            raise
        except BaseException:
            # Errors of this process are no failures of the function.
            self._breakers.record_answer(revision)
            raise
        self._breakers.record_answer(revision, self._clock.monotonic() - began)
        return response

    def close(self) -> None:
        self._inner.close()
