"""Large responses are processed a few at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from kanister_py.executor.answer_budget import AnswerBudget

PATIENCE_SECONDS = 60.0
MIB = 1 << 20


def test_a_large_response_waits_for_a_free_budget() -> None:
    budget = AnswerBudget(10 * MIB)
    has_taken, may_end, has_second = Event(), Event(), Event()

    def hold() -> None:
        with budget.scope():
            budget.take(6 * MIB)
            budget.take(6 * MIB)  # a second response in the same scope does not wait
            has_taken.set()
            may_end.wait(PATIENCE_SECONDS)

    def follow() -> None:
        with budget.scope():
            budget.take(6 * MIB)
            has_second.set()

    with ThreadPoolExecutor(2) as pool:
        holding = pool.submit(hold)
        assert has_taken.wait(PATIENCE_SECONDS)
        following = pool.submit(follow)
        with budget.scope():
            budget.take(1000)  # a small response never waits
        assert not has_second.wait(0.05)
        may_end.set()
        holding.result(PATIENCE_SECONDS)
        following.result(PATIENCE_SECONDS)
    assert has_second.is_set()


def test_a_response_larger_than_the_budget_is_processed_alone() -> None:
    budget = AnswerBudget(10 * MIB)
    for _ in range(2):
        with budget.scope():
            budget.take(50 * MIB)


def fail_within(budget: AnswerBudget) -> float:
    with budget.scope():
        budget.take(9 * MIB)
        return 1 / 0


def test_a_failed_scope_returns_its_budget() -> None:
    budget = AnswerBudget(10 * MIB)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail_within(budget)


def test_responses_outside_of_a_scope_are_not_counted() -> None:
    budget = AnswerBudget(10 * MIB)
    for _ in range(3):
        budget.take(9 * MIB)
