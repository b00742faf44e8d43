"""A short night in simulated time: what the long ones of docs/scale.md rest on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.night import Night, Plan, simulate
from tests.simulation.page import write_page


@pytest.fixture(scope="module")
def nights() -> list[Night]:
    plan = Plan(1, namespaces=12, hours=0.25, composites=12)
    return [simulate(plan._replace(replicas=replicas)) for replicas in (1, 3)]


def test_every_run_of_a_night_comes_to_its_end_in_one_attempt(nights: list[Night]) -> None:
    for night in nights:
        assert night.completed == night.attempts >= night.plan.action_sets
        # Nobody's schedule has left out a time.
        assert night.completed % night.plan.namespaces == 0
        assert night.composed == night.plan.composites


def test_replicas_share_the_work_and_ask_no_more_for_it(nights: list[Night]) -> None:
    alone, shared = nights
    assert all(share.runs > 0 for share in shared.shares)
    assert sum(share.runs for share in shared.shares) == shared.completed
    of_runs = ("replace_status ActionSet", "create ActionSet", "apply ConfigMap")
    for what in of_runs:
        each = [night.requests[what] / night.completed for night in nights]
        assert each[1] <= each[0] * 1.05, what
    of_schedules = alone.completed - alone.plan.namespaces * alone.plan.by_hand
    # It is looked at when a run is due, when one has ended, and when one is gone.
    assert alone.requests["get schedules"] < 3.5 * of_schedules
    assert max(share.requests for share in shared.shares) < alone.shares[0].requests


def test_what_nights_came_to_is_told_on_a_page_with_a_plot(
    nights: list[Night], tmp_path: Path
) -> None:
    write_page([Night.of(night.as_dict()) for night in nights], tmp_path / "scale.md")
    page = (tmp_path / "scale.md").read_text()
    assert f"| 3 | {nights[1].completed:,} |" in page
    assert "every composite resource" in page.replace("\n", " ")
    assert (tmp_path / "scale.svg").read_text().count("<rect") == 1 + 4 * 2
