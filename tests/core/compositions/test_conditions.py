"""Conditions of an XR after a run."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.compositions.results import (
    FATAL_MESSAGE,
    Conditions,
    CustomCondition,
    join_names,
    results_of,
)

NOW = "2026-01-02T00:00:00Z"
BEFORE = "2026-01-01T00:00:00Z"


def condition(type_: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"type": type_, "status": status, "lastTransitionTime": BEFORE, **more}


@pytest.mark.parametrize(
    ("names", "want"),
    [
        (["a"], "a"),
        (["b", "a"], "a, b"),
        (["c", "a", "b"], "a, b, and c"),
        (["d", "c", "b", "a"], "a, b, c, and 1 more"),
    ],
)
def test_names_are_listed_for_people(names: list[str], want: str) -> None:
    assert join_names(names) == want


def test_a_condition_keeps_its_place_and_its_time_while_it_says_the_same() -> None:
    given = [condition("Synced", reason="ReconcileSuccess"), condition("Ready", reason="Available")]
    conditions = Conditions(given, NOW, generation=3)
    conditions.set_outcome([], ["x"], None)
    synced, ready = conditions.as_list()
    assert synced == {**given[0], "observedGeneration": 3}
    assert ready["lastTransitionTime"] == NOW
    assert ready["message"] == "Unready resources: x"


@pytest.mark.parametrize(
    ("unready", "composite", "want"),
    [
        pytest.param([], None, ("True", "Available", None), id="nothing is unready"),
        pytest.param(["a"], True, ("True", "Available", None), id="the function says ready"),
        pytest.param([], False, ("False", "Creating", None), id="the function says not ready"),
        pytest.param(
            ["a"], None, ("False", "Creating", "Unready resources: a"), id="something is unready"
        ),
    ],
)
def test_an_xr_is_ready_if_its_function_says_so_else_if_its_resources_are(
    unready: list[str], composite: bool | None, want: tuple[str, str, str | None]
) -> None:
    conditions = Conditions([], NOW)
    conditions.set_outcome([], unready, composite)
    ready = conditions.as_list()[-1]
    assert (ready["status"], ready["reason"], ready.get("message")) == want


def test_functions_have_no_say_in_what_the_engine_says() -> None:
    conditions = Conditions([], NOW)
    conditions.set_custom(
        [CustomCondition("Ready", "True", "Lie"), CustomCondition("Own", "False", "R", "m")]
    )
    assert [each["type"] for each in conditions.as_list()] == ["Own"]


def test_after_a_failure_what_nobody_spoke_of_is_not_known_any_more() -> None:
    conditions = Conditions([condition("Old"), condition("Ready")], NOW)
    custom = [CustomCondition("New", "True", "R")]
    conditions.set_custom(custom)
    conditions.set_after_failure("cannot compose resources: x", custom)
    found = {each["type"]: each for each in conditions.as_list()}
    assert (found["Old"]["status"], found["Old"]["reason"]) == ("Unknown", "FatalError")
    assert found["Old"]["message"] == FATAL_MESSAGE
    assert found["New"]["status"] == "True"
    assert found["Ready"]["status"] == "True"
    assert found["Synced"]["message"] == "cannot compose resources: x"


def test_a_condition_without_a_status_is_unknown_and_a_claims_is_marked() -> None:
    response = FunctionResponse(
        conditions=(
            {"type": "A", "reason": "R"},
            {
                "type": "B",
                "status": "STATUS_CONDITION_FALSE",
                "reason": "R",
                "target": "TARGET_COMPOSITE_AND_CLAIM",
            },
        )
    )
    first, second = results_of("s", response).conditions
    assert (first.status, first.is_for_claim) == ("Unknown", False)
    assert (second.status, second.is_for_claim) == ("False", True)
