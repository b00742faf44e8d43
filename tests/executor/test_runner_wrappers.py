"""Wrappers of a function runner: retries, timeouts and tags of calls."""

from __future__ import annotations

import pytest

from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse, Part
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.core.retries import RetryRule
from kanister_py.executor.runner_wrappers import (
    STEP_RETRY,
    bounded,
    retried,
    with_tags_checked,
)
from kanister_py.ports.function_runner import (
    FunctionAnswerInvalid,
    FunctionAnswerTooLarge,
    FunctionCall,
    FunctionCallError,
    FunctionCallFailed,
    FunctionCertificateRefused,
    FunctionOverloaded,
    FunctionTimedOut,
    FunctionUnavailable,
)
from tests.contracts.function_runner import request_with
from tests.fake_clock import FakeClock

CALL = FunctionCall("s", FunctionRevision("f", "f-1", 1), FunctionRequest(Part({})))


class Failing:
    """Fails with one error a number of times, then answers."""

    def __init__(self, kind: type[FunctionCallError], times: int) -> None:
        self.kind, self.times, self.calls = kind, times, 0

    def run(self, call: FunctionCall) -> FunctionResponse:
        self.calls += 1
        if self.calls <= self.times:
            raise self.kind("s", "f", "f-1", "no")
        return FunctionResponse(tag="answered")


@pytest.mark.parametrize("kind", [FunctionUnavailable, FunctionOverloaded])
def test_a_transient_failure_is_retried(kind: type[FunctionCallError]) -> None:
    clock, inner = FakeClock(jumps=True), Failing(kind, 3)
    assert retried(inner.run, clock)(CALL).tag == "answered"
    assert inner.calls == 4
    assert clock.monotonic() == pytest.approx(0.1 + 0.2 + 0.4)


@pytest.mark.parametrize(
    "kind",
    [
        FunctionTimedOut,
        FunctionCallFailed,
        FunctionAnswerInvalid,
        FunctionAnswerTooLarge,
        FunctionCertificateRefused,
    ],
)
def test_other_failures_are_not_retried(kind: type[FunctionCallError]) -> None:
    clock, inner = FakeClock(jumps=True), Failing(kind, 1)
    with pytest.raises(kind):
        retried(inner.run, clock)(CALL)
    assert (inner.calls, clock.monotonic()) == (1, 0.0)


def test_the_last_failure_is_raised() -> None:
    inner = Failing(FunctionUnavailable, 99)
    rule = STEP_RETRY._replace(limit=2, backoff_seconds=4, max_backoff_seconds=5)
    clock = FakeClock(jumps=True)
    with pytest.raises(FunctionUnavailable):
        retried(inner.run, clock, rule)(CALL)
    assert (inner.calls, clock.monotonic()) == (3, 9.0)


class Unreachable(Failing):
    """Waits for an unreachable server during the whole time of an attempt."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        super().__init__(FunctionUnavailable, 9)
        self.clock, self.seconds = clock, seconds

    def run(self, call: FunctionCall) -> FunctionResponse:
        self.clock.sleep(self.seconds)
        return super().run(call)


WANTED = STEP_RETRY._replace(on=frozenset({"FunctionUnavailable"}))


@pytest.mark.parametrize(
    ("seconds", "rule", "calls"),
    [
        pytest.param(60.0, STEP_RETRY, 1, id="all its time was waited"),
        pytest.param(1.0, STEP_RETRY, 4, id="it was refused soon"),
        pytest.param(60.0, WANTED, 4, id="the step wants it so"),
    ],
)
def test_an_unreachable_server_is_not_tried_again_after_the_full_time(
    seconds: float, rule: RetryRule, calls: int
) -> None:
    clock = FakeClock(jumps=True)
    inner = Unreachable(clock, seconds)
    with pytest.raises(FunctionUnavailable):
        retried(inner.run, clock, rule)(CALL._replace(timeout_seconds=60.0))
    assert inner.calls == calls


class Slow:
    """Takes the same time for every call, and records the timeouts."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self.given: list[float] = []

    def run(self, call: FunctionCall) -> FunctionResponse:
        self.given.append(call.timeout_seconds)
        self._clock.sleep(self._seconds)
        return FunctionResponse(tag="answered")

    def close(self) -> None:
        """There is nothing to close."""


def test_all_rounds_of_a_step_share_its_timeout() -> None:
    clock = FakeClock(jumps=True)
    slow = Slow(clock, 4.0)
    run = bounded(slow.run, clock)
    call = CALL._replace(timeout_seconds=10.0)
    for _ in range(3):
        run(call)
    assert slow.given == [10.0, 6.0, 2.0]
    with pytest.raises(FunctionTimedOut, match="took more than its timeout of 10 s"):
        run(call)
    assert len(slow.given) == 3


class Hanging(Slow):
    """Times out in its first calls, then answers immediately."""

    def __init__(self, clock: FakeClock, times: int) -> None:
        super().__init__(clock, 1.0)
        self._times = times

    def run(self, call: FunctionCall) -> FunctionResponse:
        if len(self.given) >= self._times:
            return super().run(call)
        self.given.append(call.timeout_seconds)
        self._clock.sleep(call.timeout_seconds)
        raise FunctionTimedOut("s", "f", "f-1", "no answer in time")


def test_a_retry_after_a_timeout_has_the_full_timeout() -> None:
    clock = FakeClock(jumps=True)
    hanging = Hanging(clock, 2)
    rule = STEP_RETRY._replace(limit=2, on=frozenset({"FunctionTimedOut"}))
    run = retried(bounded(hanging.run, clock), clock, rule)
    call = CALL._replace(timeout_seconds=10.0)
    assert run(call).tag == "answered"
    assert hanging.given == pytest.approx([10.0, 10.0, 10.0])
    # The next round has the remaining time.
    run(call)
    assert hanging.given[-1] == pytest.approx(9.0)


def test_a_call_that_timed_out_is_not_retried_by_default() -> None:
    clock = FakeClock(jumps=True)
    hanging = Hanging(clock, 2)
    run = retried(bounded(hanging.run, clock), clock)
    with pytest.raises(FunctionTimedOut):
        run(CALL._replace(timeout_seconds=10.0))
    assert hanging.given == [10.0]


def test_a_step_without_a_timeout_uses_the_runners_timeout() -> None:
    clock = FakeClock(jumps=True)
    slow = Slow(clock, 4.0)
    run = bounded(slow.run, clock)
    for _ in range(3):
        run(CALL)
    assert slow.given == [0.0] * 3


class Answering:
    """Answers every request with the same tag."""

    def __init__(self, tag: str) -> None:
        self._tag = tag

    def run(self, _call: FunctionCall) -> FunctionResponse:
        return FunctionResponse(tag=self._tag)


def answer(sent: str, answered: str) -> FunctionResponse:
    call = FunctionCall("one", FunctionRevision("f", "f-1", 1), request_with(tag=sent))
    return with_tags_checked(Answering(answered).run)(call)


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        pytest.param("a", "a", id="its own"),
        pytest.param("a", "", id="none"),
        pytest.param("", "a", id="one without a tag in the request"),
    ],
)
def test_a_response_with_the_tag_of_its_request_or_none_is_accepted(
    sent: str, answered: str
) -> None:
    assert answer(sent, answered).tag == answered


def test_a_response_to_another_request_is_refused() -> None:
    with pytest.raises(FunctionAnswerInvalid, match="it answered another request") as caught:
        answer("a", "b")
    assert "the tag 'b', the request 'a'" in caught.value.message
