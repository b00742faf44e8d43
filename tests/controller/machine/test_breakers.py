"""Circuit breakers: functions that do not answer are paused and tried by single calls."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue
from typing import Any

import pytest

from kanister_py.controller.machine.breakers import Breakers, FunctionPaused, GuardedRunner
from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.executor.timers import TimerService
from kanister_py.ports.function_runner import (
    FunctionAnswerInvalid,
    FunctionCall,
    FunctionCallError,
    FunctionUnavailable,
)
from tests.fake_clock import FakeClock

LONGEST_WAIT_SECONDS = 5.0


class UnreliableFunction:
    """A function that answers or raises an error, as set by the test."""

    def __init__(self, clock: FakeClock) -> None:
        self.error: type[FunctionCallError] | None = FunctionUnavailable
        self.clock = clock
        self.calls = 0
        self.takes_seconds = 0.0
        self.timeouts: list[float] = []

    def run(self, call: FunctionCall) -> FunctionResponse:
        self.calls += 1
        self.timeouts.append(call.timeout_seconds)
        self.clock.advance(self.takes_seconds)
        if self.error is not None:
            raise self.error("", "x", "x-1", "it is away")
        return FunctionResponse()

    def close(self) -> None:
        pass


class Place:
    """A guarded function, and a queue of the keys that the breakers queue again."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.timers = TimerService(self.clock)
        self.looked: Queue[str] = Queue()
        self.breakers: Breakers[str] = Breakers(self.clock, self.timers, self.looked.put)
        self.function = UnreliableFunction(self.clock)
        self.runner = GuardedRunner(self.function, self.breakers, self.clock)

    def call(self) -> str:
        request: Any = None
        try:
            self.runner.run(FunctionCall("step", FunctionRevision("x", "x-1", 1), request))
        except FunctionCallError as error:
            return error.reason
        return ""

    def break_down(self) -> None:
        for _ in range(3):
            self.call()
            self.clock.advance(0.5)
        self.call()
        assert self.breakers.open_count == 1


@pytest.fixture
def place() -> Iterator[Place]:
    fresh = Place()
    yield fresh
    fresh.timers.close()


def test_a_function_that_fails_repeatedly_is_paused(place: Place) -> None:
    place.break_down()
    before = place.function.calls
    assert [place.call() for _ in range(10)] == [FunctionPaused.reason] * 10
    assert place.function.calls == before


def test_a_function_that_never_answered_is_paused_after_one_long_call(
    place: Place,
) -> None:
    place.breakers.record_failure("new", "it did not answer in time", 5.0)
    assert place.breakers.why_paused("new") == "it did not answer in time"
    place.breakers.record_answer("known", 0.1)
    place.breakers.record_failure("known", "it did not answer in time", 5.0)
    assert place.breakers.why_paused("known") == ""


def test_a_function_that_answered_before_is_paused_after_three_timeouts(
    place: Place,
) -> None:
    place.function.error, place.function.takes_seconds = None, 0.1
    place.call()
    for _ in range(3):
        assert place.breakers.why_paused("x-1") == ""
        place.breakers.record_failure("x-1", "it did not answer in time", 60.0)
    assert place.breakers.why_paused("x-1") == "it did not answer in time"


def test_a_function_whose_pods_were_replaced_has_to_answer_again(place: Place) -> None:
    place.function.error = None
    place.call()
    place.breakers.forget("x", "x-1")
    assert not place.breakers.is_proven("x")
    assert not place.breakers.has_answered("x-1")


def test_a_function_is_proven_once_it_has_answered_until_a_newer_revision_fails(
    place: Place,
) -> None:
    place.call()
    assert not place.breakers.is_proven("x")
    place.function.error = None
    place.call()
    assert place.breakers.is_proven("x")
    place.breakers.record_failure("x-2", "it is away", 5.0)
    place.breakers.record_call("x", "x-2")
    assert not place.breakers.is_proven("x")


def test_a_function_that_is_down_for_less_than_a_second_is_not_paused(place: Place) -> None:
    assert {place.call() for _ in range(50)} == {FunctionUnavailable.reason}
    place.function.error = None
    assert place.call() == ""
    assert place.breakers.open_count == 0


def test_a_paused_function_gets_one_trial_call_at_a_time(place: Place) -> None:
    place.break_down()
    place.clock.advance(LONGEST_WAIT_SECONDS)
    assert place.breakers.why_paused("x-1") == ""
    assert place.breakers.why_paused("x-1") == "it is away"


def test_one_waiting_key_is_queued_every_few_seconds(place: Place) -> None:
    place.break_down()
    for name in ("ann", "bob", "cay"):
        assert place.breakers.hold("x-1", name)
    for name in ("ann", "bob", "cay"):
        place.clock.advance(LONGEST_WAIT_SECONDS)
        assert place.looked.get(timeout=180) == name
        assert place.looked.empty()
        assert place.call() == FunctionUnavailable.reason


def test_a_key_that_waits_alone_is_queued_again_after_a_long_trial(place: Place) -> None:
    place.break_down()
    assert place.breakers.hold("x-1", "ann")
    place.clock.advance(LONGEST_WAIT_SECONDS)
    assert place.looked.get(timeout=180) == "ann"
    # The trial call hangs until its timeout. No key waits in the meantime.
    assert place.breakers.why_paused("x-1") == ""
    place.clock.advance(20.0)
    while len(place.timers):
        place.clock.sleep(0.0)
    place.breakers.record_failure("x-1", "it is away")
    assert place.breakers.hold("x-1", "ann")
    place.clock.advance(LONGEST_WAIT_SECONDS)
    assert place.looked.get(timeout=180) == "ann"


def test_all_waiting_keys_are_queued_when_the_function_answers(place: Place) -> None:
    place.break_down()
    for name in ("ann", "bob", "cay"):
        place.breakers.hold("x-1", name)
    place.function.error = None
    place.clock.advance(LONGEST_WAIT_SECONDS)
    first = place.looked.get(timeout=180)
    assert place.call() == ""
    assert {first, *(place.looked.get(timeout=180) for _ in range(2))} == {"ann", "bob", "cay"}
    assert not place.breakers.hold("x-1", "dan")


def test_a_hanging_trial_call_is_cut_short(place: Place) -> None:
    place.function.error, place.function.takes_seconds = None, 6.0
    assert place.call() == ""
    place.function.error, place.function.takes_seconds = FunctionUnavailable, 0.0
    place.break_down()
    del place.function.timeouts[:]
    for _ in range(3):
        place.clock.advance(LONGEST_WAIT_SECONDS)
        assert place.call() == FunctionUnavailable.reason
    # Twice its longest time, so that a slow but healthy function answers a trial.
    assert place.function.timeouts == [12.0, 12.0, 12.0]


def test_the_timeout_of_trials_grows_for_a_function_that_never_answered(place: Place) -> None:
    place.break_down()
    del place.function.timeouts[:]
    for _ in range(6):
        place.clock.advance(LONGEST_WAIT_SECONDS)
        place.call()
    assert place.function.timeouts == [4.0, 8.0, 16.0, 32.0, 64.0, 4.0]


def test_an_invalid_response_counts_as_an_answer(place: Place) -> None:
    place.function.error = FunctionAnswerInvalid
    for _ in range(10):
        assert place.call() == FunctionAnswerInvalid.reason
        place.clock.advance(1.0)
    assert place.breakers.open_count == 0
