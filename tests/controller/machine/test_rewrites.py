"""Rewrites: a loop stops once another one takes its writes back."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.controller.machine.events import Subject
from kanister_py.controller.machine.metrics import ControllerMetrics
from kanister_py.controller.machine.rewrites import RewriteGuard, RewrittenInTurn
from kanister_py.core.kube.resources import CONFIG_MAPS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.fake_clock import FakeClock


class Desk:
    """A cluster behind a guard, and two loops that write to one object."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.events: list[str] = []
        self.metrics = ControllerMetrics()
        self.cluster = MemoryCluster(clock=self.clock)
        self.guard = RewriteGuard(self.cluster, self.clock, self._tell, self.metrics)

    def _tell(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        self.events.append(f"{kind} {subject.name} {reason}: {message}")

    def write(self, loop: str, **data: str) -> None:
        obj: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": "shared"},
            "data": data,
        }
        with self.guard.acting(loop):
            self.guard.as_cluster().apply(obj, field_manager="kanister-py", force=True)

    def count(self) -> float:
        labels = {"kind": "ConfigMap", "loop": "Claim"}
        name = "kanister_py_rewrites_stopped_total"
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def desk() -> Desk:
    return Desk()


def fight(desk: Desk, turns: int) -> None:
    for turn in range(turns):
        desk.write("CompositeResource" if turn % 2 else "Claim", colour="rg"[turn % 2])


def test_a_loop_whose_writes_another_one_takes_back_is_stopped(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.write("CompositeResource", colour="g")
    fight(desk, 5)
    (event,) = desk.events
    assert event.startswith("Warning shared RewrittenInTurn: ConfigMap shared: data.colour is ")
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert desk.count() == 1
    with pytest.raises(RewrittenInTurn, match="leaves it alone for 60s"):
        desk.write("Claim", colour="r")
    desk.write("CompositeResource", colour="g")
    assert desk.cluster.get(CONFIG_MAPS, "shared", namespace="default")["data"] == {"colour": "g"}


def test_a_loop_that_was_stopped_tries_again_after_a_while(desk: Desk) -> None:
    desk.write("CompositeResource", colour="g")
    fight(desk, 5)
    desk.clock.advance(61)
    desk.write("Claim", colour="r")
    assert desk.cluster.get(CONFIG_MAPS, "shared", namespace="default")["data"] == {"colour": "r"}


def test_two_loops_that_write_different_fields_in_turn_are_left_alone(desk: Desk) -> None:
    for turn in range(20):
        desk.write("Claim", region="eu" if turn % 2 else "us", status=str(turn))
        desk.write("CompositeResource", region="eu" if turn % 2 else "us", status=str(turn + 1))
    assert desk.events == []


def test_one_loop_that_changes_its_mind_is_left_alone(desk: Desk) -> None:
    for turn in range(20):
        desk.write("Claim", colour="rg"[turn % 2])
    assert desk.events == []


def test_turns_with_long_pauses_are_no_fight(desk: Desk) -> None:
    for turn in range(12):
        desk.write("CompositeResource" if turn % 2 else "Claim", colour="rg"[turn % 2])
        desk.clock.advance(11)
    assert desk.events == []
