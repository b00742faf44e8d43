"""Runs of a Schedule, read from ActionSets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kanister_py.core.kube.names import dns_label_problem
from kanister_py.core.schedules.runs import name_of_run, read_run
from tests.core.schedules.schedules import at


def test_name_of_a_run_is_a_valid_label_for_any_schedule_name() -> None:
    for name in ("a", "n" * 63, "a.b-c"):
        run_name = name_of_run(name.replace(".", "-"), "uid", at("2026-11-19T02:00"))
        assert dns_label_problem(run_name) == ""
    one, other = (name_of_run("a", uid, at("2026-11-19T02:00")) for uid in ("uid", "other"))
    assert one != other
    assert one == name_of_run("a", "uid", at("2026-11-19T02:00"))


@pytest.mark.parametrize(
    "status",
    [
        {"state": "failed", "error": "text", "conditions": "text", "progress": []},
        {"state": "failed", "error": {"message": None}, "conditions": ["text", None]},
        {"state": "complete", "actions": "text"},
        {"state": "complete", "actions": ["text", {"artifacts": {"a": {}}}]},
    ],
)
@pytest.mark.parametrize("actions", ["text", ["text"], [{"object": "text"}], None])
def test_malformed_actionset_is_read_without_an_error(status: dict[str, Any], actions: Any) -> None:
    metadata = {"name": "a", "creationTimestamp": "2026-11-19T02:00:00Z"}
    run = read_run({"metadata": metadata, "spec": {"actions": actions}, "status": status})
    assert run.ended == datetime(2026, 11, 19, 2, tzinfo=UTC)
