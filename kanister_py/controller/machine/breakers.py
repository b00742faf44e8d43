"""Circuit breakers: functions that do not answer are tried by one call at a time."""

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
"""A revision that never answered is left alone after one call that failed after this long."""
_LEAST_SECONDS: Final = 1.0
"""For how long a function must have failed: one that is being replaced is back in less."""
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 4.0
_TRIAL_SECONDS: Final = 4.0
"""What a call that tries a function has at least: one that hangs must not keep others away."""
_LONGEST_TRIAL_SECONDS: Final = 64.0

Key = TypeVar("Key", bound=Hashable)


class FunctionPaused(FunctionCallError, TransientError, reason="FunctionPaused"):
    """A function has not answered several times, and is left alone for a moment."""


@dataclass(slots=True, eq=False, repr=False)
class _Circuit(Generic[Key]):
    """What is known of one revision of a function."""

    failures: int = 0
    since: float = 0.0
    """When the first of the failures in a row was."""
    why: str = ""
    is_open: bool = False
    pause_seconds: float = _FIRST_PAUSE_SECONDS
    next_try: float = 0.0
    is_tried: bool = False
    trial_seconds: float = _TRIAL_SECONDS
    waiting: dict[Key, None] = field(default_factory=dict)
    timer: Timer | None = None


class Breakers(Generic[Key]):
    """Revisions of functions that do not answer, and the composite resources that wait for them.

    What waits is looked at again as soon as the function answers; until then one of them is
    looked at every few seconds, whose call is the one that tries it.
    """

    def __init__(self, clock: Clock, timers: TimerService, look_at: Callable[[Key], None]) -> None:
        self._clock = clock
        self._timers = timers
        self._look_at = look_at
        self._lock = Lock()
        self._circuits: dict[str, _Circuit[Key]] = {}
        self._slowest: dict[str, float] = {}
        """How long revisions took at most for an answer."""
        self._proven: set[str] = set()
        """Functions of which the revision that was called last has answered before."""

    @property
    def open_ones(self) -> int:
        with self._lock:
            return sum(circuit.is_open for circuit in self._circuits.values())

    def why_paused(self, revision: str) -> str:
        """Say why a revision may not be called now; empty if it may, be it to try it."""
        with self._lock:
            circuit = self._circuits.get(revision)
            if circuit is None or not circuit.is_open:
                return ""
            if not circuit.is_tried and self._clock.monotonic() >= circuit.next_try:
                circuit.is_tried = True
                return ""
            return circuit.why

    def trial_seconds(self, revision: str) -> float:
        """Say how long a call may take that tries a revision; zero if it is no such call.

        Twice as long as it ever took. Where that is not known, each try has twice the time
        of the one before, and after the longest it begins anew.
        """
        with self._lock:
            circuit = self._circuits.get(revision)
            if circuit is None or not circuit.is_open:
                return 0.0
            slowest = self._slowest.get(revision)
            return circuit.trial_seconds if slowest is None else max(_TRIAL_SECONDS, 2 * slowest)

    def has_answered(self, revision: str) -> bool:
        """Return whether a revision has answered a call of this process."""
        return revision in self._slowest

    def is_proven(self, function: str) -> bool:
        """Return whether a function has answered, and no newer revision has failed since."""
        return function in self._proven

    def note_call(self, function: str, revision: str) -> None:
        """Note the end of a call, after its failure or answer has been noted."""
        with self._lock:
            (self._proven.add if self.has_answered(revision) else self._proven.discard)(function)

    def note_failure(self, revision: str, why: str, seconds: float = 0.0) -> None:
        """Count a call that brought no answer in so many seconds."""
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

    def note_answer(self, revision: str, seconds: float = 0.0) -> None:
        """Note that a revision answers; who waits for it is looked at again."""
        with self._lock:
            if seconds > self._slowest.get(revision, -1.0):
                self._slowest[revision] = seconds
            # Most calls go well, and find nothing here.
            circuit = self._circuits.pop(revision, None) if self._circuits else None
            if circuit is None:
                return
            if circuit.timer is not None:
                circuit.timer.cancel()
        if circuit.is_open:
            _LOG.info("%s answers again", revision)
        for key in circuit.waiting:
            self._look_at(key)

    def forget(self, function: str, revision: str) -> None:
        """Forget the answers of a revision whose pods were replaced, and those of its function."""
        self.note_answer(revision)
        with self._lock:
            self._slowest.pop(revision, None)
            self._proven.discard(function)

    def hold(self, revision: str, key: Key) -> bool:
        """Have a key wait until a revision answers again; False if there is no need to."""
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
        """Have one of those that wait be looked at: its call tries the function."""
        with self._lock:
            circuit = self._circuits.get(revision)
            if circuit is None:
                return
            # It has rung: what waits from now on needs another one.
            circuit.timer = None
            if not circuit.waiting:
                return
            key = next(iter(circuit.waiting))
            del circuit.waiting[key]
            circuit.next_try = self._clock.monotonic()
            # Should it never come to a call, the next one tries.
            circuit.timer = self._timers.call_later(
                _LONGEST_PAUSE_SECONDS, lambda: self._try(revision)
            )
        self._look_at(key)


class GuardedRunner(Generic[Key]):
    """Runner that refuses at once to call functions that do not answer."""

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
            self._breakers.note_call(call.revision.function, revision)

    def _run(self, call: FunctionCall) -> FunctionResponse:
        revision = call.revision.name
        began = self._clock.monotonic()
        try:
            response = self._inner.run(call)
        except FunctionCallError as error:
            if isinstance(error, TransientError):
                seconds = self._clock.monotonic() - began
                self._breakers.note_failure(revision, error.why, seconds)
            else:
                # Whatever it says, it does answer.
                self._breakers.note_answer(revision)
            raise
        except BaseException:
            # That is about us, and says nothing of the function.
            self._breakers.note_answer(revision)
            raise
        self._breakers.note_answer(revision, self._clock.monotonic() - began)
        return response

    def close(self) -> None:
        self._inner.close()
