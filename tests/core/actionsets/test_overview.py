"""Overview of runs: rows, filters and timelines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kanister_py.core.actionsets.overview import (
    PAGE_ROWS,
    RunQuery,
    RunRow,
    choose_rows,
    row_of,
    timeline_of,
)

BEGAN = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).isoformat()


def actionset(status: Any = None, **spec: Any) -> dict[str, Any]:
    spec.setdefault("actions", [{"name": "backup", "blueprint": "pg"}])
    metadata = {"name": "one", "namespace": "shop", "creationTimestamp": at(0)}
    return {"metadata": metadata, "spec": spec, **({"status": status} if status else {})}


@pytest.mark.parametrize(
    ("obj", "state"),
    [
        pytest.param(actionset(), "pending", id="nobody has touched it"),
        pytest.param(actionset(suspend=True), "suspended", id="it is held back"),
        pytest.param(
            actionset({"state": "running"}, suspend=True), "running", id="held back too late"
        ),
        pytest.param(actionset({"state": "failed"}), "failed", id="it failed"),
    ],
)
def test_row_has_the_state_of_the_run(obj: Any, state: str) -> None:
    assert row_of(obj).state == state


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(actionset(actions=["x", {"name": 3}]), id="actions that are none"),
        pytest.param(actionset({"state": 4, "progress": "x", "error": []}), id="a strange status"),
        pytest.param({"metadata": {"name": "x"}}, id="nothing at all"),
        pytest.param(actionset({"state": "complete", "conditions": ["x"]}), id="conditions"),
    ],
)
def test_malformed_actionset_has_a_row(obj: Any) -> None:
    assert row_of(obj).name


@pytest.mark.parametrize(
    "annotation", ["5", "[]", '"x"', '{"warnings": 3}', '{"conditions": 7}', "[" * 200_000]
)
def test_malformed_annotation_does_not_hide_the_row(annotation: str) -> None:
    obj = actionset({"state": "failed"})
    obj["metadata"]["annotations"] = {"kanister-py.io/status": annotation}
    assert row_of(obj).state == "failed"
    assert timeline_of(obj, BEGAN).row.state == "failed"


ROWS = [
    RunRow("a", "new", "running", BEGAN, ("backup",), ("pg",), phase="dump"),
    RunRow("a", "old", "complete", BEGAN - timedelta(days=2), ("backup",), ("pg", "x"), BEGAN),
    RunRow("b", "held", "pending", BEGAN - timedelta(days=2), ("backup",), ("my",)),
    RunRow("b", "bad", "failed", BEGAN, ("x",), ("my",), BEGAN, schedule="nightly"),
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param(RunQuery(), ["new", "old", "held", "bad"], id="all"),
        pytest.param(RunQuery(namespace="b"), ["held", "bad"], id="a namespace"),
        pytest.param(RunQuery(blueprint="x"), ["old"], id="one of several blueprints"),
        pytest.param(RunQuery(state="failed"), ["bad"], id="a state"),
        pytest.param(RunQuery(schedule="nightly"), ["bad"], id="a schedule"),
        pytest.param(
            RunQuery(age_seconds=3600), ["new", "held", "bad"], id="young, or not over yet"
        ),
        pytest.param(RunQuery(namespace="a", state="failed"), [], id="nothing fits"),
    ],
)
def test_rows_match_all_filters(query: RunQuery, names: list[str]) -> None:
    assert [row.name for row in choose_rows(ROWS, query, BEGAN).rows] == names


@pytest.mark.parametrize(
    ("page", "first", "count"),
    [
        pytest.param(1, 0, PAGE_ROWS, id="the first"),
        pytest.param(3, 2 * PAGE_ROWS, 5, id="the last"),
        pytest.param(9, 2 * PAGE_ROWS, 5, id="one that is not there is the last"),
        pytest.param(-4, 0, PAGE_ROWS, id="one before the first is the first"),
    ],
)
def test_pages_contain_all_rows(page: int, first: int, count: int) -> None:
    rows = [RunRow("a", str(n), "complete", BEGAN) for n in range(2 * PAGE_ROWS + 5)]
    chosen = choose_rows(rows, RunQuery(page=page), BEGAN)
    assert (chosen.total, chosen.pages) == (len(rows), 3)
    assert [row.name for row in chosen.rows] == [str(n) for n in range(first, first + count)]


def test_bars_are_fractions_of_the_duration_of_the_run() -> None:
    phases = [
        {"name": "stop", "state": "complete", "startTime": at(0), "completionTime": at(25)},
        {"name": "dump", "state": "running", "startTime": at(50), "attempt": 2},
        {"name": "start", "state": "pending"},
    ]
    action = {"name": "backup", "phases": phases, "deferPhase": {"name": "tidy", "state": "x"}}
    timeline = timeline_of(
        actionset({"state": "running", "actions": [action]}), BEGAN + timedelta(seconds=100)
    )
    bars = timeline.actions[0].bars
    assert timeline.seconds == 100
    assert [(bar.name, bar.start, bar.length) for bar in bars] == [
        ("stop", 0.0, 0.25),
        ("dump", 0.5, 0.5),
        ("start", 0.0, 0.0),
        ("tidy", 0.0, 0.0),
    ]
    assert [bar.is_deferred for bar in bars] == [False, False, False, True]


def test_run_without_an_end_time_ends_with_its_last_phase() -> None:
    phase = {"name": "a", "state": "failed", "startTime": at(0), "completionTime": at(9)}
    status = {"state": "failed", "actions": [{"name": "backup", "phases": [phase]}]}
    assert timeline_of(actionset(status), BEGAN + timedelta(days=3)).seconds == 9


def test_unreadable_status_is_reported_instead_of_a_timeline() -> None:
    timeline = timeline_of(actionset({"actions": "x"}), BEGAN)
    assert timeline.reason == "StatusUnreadable"
