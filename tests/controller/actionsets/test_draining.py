"""Draining: the phases that a stopping controller waits for."""

from __future__ import annotations

from threading import Condition
from typing import cast

from kanister_py.controller.actionsets.draining import Drain
from kanister_py.controller.actionsets.reconcile import ActionSetReconciler
from kanister_py.executor.run.run import RunningPhases
from tests.fake_clock import FakeClock


class Writing:
    """A reconciler with one run that takes some time to write the start of a phase."""

    has_unreported_ends = False

    def __init__(self, looks: int) -> None:
        self._looks_left = looks
        self.at_work = RunningPhases()
        self.seen_at_work = 0

    def drain(self) -> bool:
        self._looks_left -= 1
        if self._looks_left == 0:
            self.at_work = RunningPhases(1, 1)
        elif self._looks_left < 0:
            self.seen_at_work += self.at_work.untouchable
            self.at_work = RunningPhases()
        return self._looks_left <= 0


def test_draining_waits_for_a_phase_whose_start_is_being_written() -> None:
    reconciler = Writing(looks=3)
    drain = Drain(FakeClock(jumps=True), "", 20.0)
    drain.carry_out(cast("ActionSetReconciler", reconciler), Condition(), lambda: True)
    assert reconciler.seen_at_work == 1
