"""Activation: the choice of a function's active revisions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.registry.entries import DesiredState, FunctionRevision
from kanister_py.core.revisions.activation import (
    Activation,
    ActivationPolicy,
    plan_activation,
    problems_of_limits,
)


def serving(number: int) -> FunctionRevision:
    return FunctionRevision("f", f"f-{number}", number, is_healthy=True, endpoint="dns:///f:9443")


def starting(number: int) -> FunctionRevision:
    return serving(number)._replace(is_healthy=False)


def inactive(number: int) -> FunctionRevision:
    return starting(number)._replace(desired_state=DesiredState.INACTIVE)


@pytest.mark.parametrize(
    ("revisions", "limit", "want"),
    [
        pytest.param([], 1, Activation(), id="no revision"),
        pytest.param([inactive(1)], 1, Activation(("f-1",)), id="the first one"),
        pytest.param(
            [serving(1), inactive(2)],
            1,
            Activation(("f-2",), (), ("f-1",)),
            id="the old one serves until the new one does",
        ),
        pytest.param(
            [serving(1), starting(2)],
            1,
            Activation((), (), ("f-1",)),
            id="the new one is still starting",
        ),
        pytest.param(
            [serving(1), serving(2)], 1, Activation((), ("f-1",)), id="the new one serves"
        ),
        pytest.param(
            [serving(1), starting(2), inactive(3)],
            1,
            Activation(("f-3",), ("f-2",), ("f-1",)),
            id="one that never came up is displaced by the next",
        ),
        pytest.param(
            [serving(1), serving(2), serving(3)],
            2,
            Activation((), ("f-1",)),
            id="the lowest goes first",
        ),
        pytest.param(
            [inactive(1), inactive(2), serving(3)],
            2,
            Activation(("f-2",)),
            id="the limit was raised",
        ),
    ],
)
def test_highest_revisions_become_active_without_an_interruption(
    revisions: list[FunctionRevision], limit: int, want: Activation
) -> None:
    assert plan_activation(revisions, limit) == want


def test_manual_policy_changes_nothing() -> None:
    revisions = [serving(1), inactive(2), serving(3)]
    assert plan_activation(revisions, 1, ActivationPolicy.MANUAL) == Activation()


KINDS = st.sampled_from([serving, starting, inactive])


@given(st.lists(KINDS, max_size=8), st.integers(1, 4))
def test_activation_never_removes_the_last_routable_revision(
    kinds: list[object], limit: int
) -> None:
    """The lowest revision is deactivated only when the newest is routable."""
    revisions = [kind(number) for number, kind in enumerate(kinds, start=1)]  # type: ignore[operator]  # hypothesis hides the type
    plan = plan_activation(revisions, limit)
    before = [revision for revision in revisions if revision.is_routable]
    after = [revision for revision in before if revision.name not in plan.deactivate]
    assert bool(after) == bool(before)
    active = {e.name for e in revisions if e.desired_state is DesiredState.ACTIVE}
    assert len(active | set(plan.activate)) - len(plan.deactivate) <= limit + 1


@pytest.mark.parametrize(
    ("active", "history", "is_function", "wrong"),
    [
        pytest.param(None, None, True, [], id="nothing said"),
        pytest.param(2, 4, True, [], id="fewer active than kept"),
        pytest.param(2, 0, True, [], id="no limit of history"),
        pytest.param(2, None, True, [], id="the history grows with what may be active"),
        pytest.param(2, 1, True, ["activeRevisionLimit"], id="unless it is set"),
        pytest.param(5, 4, True, ["activeRevisionLimit"], id="more active than kept"),
        pytest.param(0, 4, True, ["activeRevisionLimit"], id="none active"),
        pytest.param(2, 4, False, ["activeRevisionLimit"], id="a provider"),
        pytest.param(1, -1, True, ["revisionHistoryLimit"], id="a negative history"),
    ],
)
def test_invalid_limits_are_reported(
    active: int | None, history: int | None, is_function: bool, wrong: list[str]
) -> None:
    problems = problems_of_limits(active, history, is_function=is_function)
    assert [field for field, _message in problems] == wrong
