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
def test_names_are_joined_for_messages(names: list[str], want: str) -> None:
    assert join_names(names) == want


def test_unchanged_condition_keeps_its_place_and_time() -> None:
    existing = [
        condition("Synced", reason="ReconcileSuccess"),
        condition("Ready", reason="Available"),
    ]
    conditions = Conditions(existing, NOW, generation=3)
    conditions.set_outcome([], ["x"], None)
    synced, ready = conditions.as_list()
    assert synced == {**existing[0], "observedGeneration": 3}
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
def test_function_overrides_the_readiness_of_the_composed_resources(
    unready: list[str], composite: bool | None, want: tuple[str, str, str | None]
) -> None:
    conditions = Conditions([], NOW)
    conditions.set_outcome([], unready, composite)
    ready = conditions.as_list()[-1]
    assert (ready["status"], ready["reason"], ready.get("message")) == want


def test_functions_cannot_set_system_conditions() -> None:
    conditions = Conditions([], NOW)
    conditions.set_custom(
        [CustomCondition("Ready", "True", "Lie"), CustomCondition("Own", "False", "R", "m")]
    )
    assert [entry["type"] for entry in conditions.as_list()] == ["Own"]


def test_conditions_not_set_in_a_failed_run_become_unknown() -> None:
    conditions = Conditions([condition("Old"), condition("Ready")], NOW)
    custom = [CustomCondition("New", "True", "R")]
    conditions.set_custom(custom)
    conditions.set_after_failure("cannot compose resources: x", custom)
    by_type = {entry["type"]: entry for entry in conditions.as_list()}
    assert (by_type["Old"]["status"], by_type["Old"]["reason"]) == ("Unknown", "FatalError")
    assert by_type["Old"]["message"] == FATAL_MESSAGE
    assert by_type["New"]["status"] == "True"
    assert by_type["Ready"]["status"] == "True"
    assert by_type["Synced"]["message"] == "cannot compose resources: x"


def test_condition_without_a_status_is_unknown() -> None:
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
