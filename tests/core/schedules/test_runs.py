"""Runs of a schedule, as its ActionSets show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kanister_py.core.kube.names import dns_label_problem
from kanister_py.core.schedules.runs import name_of_run, read_run
from tests.core.schedules.schedules import at


def test_the_name_of_a_time_is_a_label_whatever_the_schedule_is_called() -> None:
    for name in ("a", "n" * 63, "a.b-c"):
        made = name_of_run(name.replace(".", "-"), "uid", at("2026-11-19T02:00"))
        assert dns_label_problem(made) == ""
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
def test_one_that_nobody_can_read_keeps_no_other_from_being_seen(
    status: dict[str, Any], actions: Any
) -> None:
    metadata = {"name": "a", "creationTimestamp": "2026-11-19T02:00:00Z"}
    run = read_run({"metadata": metadata, "spec": {"actions": actions}, "status": status})
    assert run.ended == datetime(2026, 11, 19, 2, tzinfo=UTC)
