"""Readiness probes of containers."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.embedded.pods.readiness import ReadinessProbe

PATIENCE_SECONDS = 180.0


class RecordedProbe:
    """One probe and its recorded results."""

    def __init__(self, probe: Mapping[str, Any]) -> None:
        self.arrived, self.go_on, self.has_answered = (threading.Event() for _ in range(3))
        self.answers: list[bool] = []
        before = set(threading.enumerate())
        self.probe = ReadinessProbe(probe, SystemClock(), run=self._run, report=self._report)
        earlier = {thread for thread in threading.enumerate() if thread.name == "pods-probe"}
        (self.thread,) = earlier - before

    def _run(self, command: Sequence[str], seconds: float) -> bool:
        self.arrived.set()
        return self.go_on.wait(PATIENCE_SECONDS)

    def _report(self, is_good: bool) -> None:
        self.answers.append(is_good)
        self.has_answered.set()

    def end(self) -> None:
        self.probe.stop()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()


def test_a_stopped_probe_reports_nothing() -> None:
    probe = RecordedProbe({"exec": {"command": ["true"]}})
    assert probe.arrived.wait(PATIENCE_SECONDS)
    probe.probe.stop()
    probe.go_on.set()
    probe.end()
    assert probe.answers == []
