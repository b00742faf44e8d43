"""Readiness probes: what they say of a container, and when they are no longer heard."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.embedded.pods.readiness import ReadinessProbe

PATIENCE_SECONDS = 180.0


class Asked:
    """One probe that is being asked, and its answers."""

    def __init__(self, probe: Mapping[str, Any]) -> None:
        self.arrived, self.go_on, self.has_answered = (threading.Event() for _ in range(3))
        self.answers: list[bool] = []
        before = set(threading.enumerate())
        self.probe = ReadinessProbe(probe, SystemClock(), run=self._run, report=self._tell)
        earlier = {thread for thread in threading.enumerate() if thread.name == "pods-probe"}
        (self.thread,) = earlier - before

    def _run(self, command: Sequence[str], seconds: float) -> bool:
        self.arrived.set()
        return self.go_on.wait(PATIENCE_SECONDS)

    def _tell(self, is_good: bool) -> None:
        self.answers.append(is_good)
        self.has_answered.set()

    def end(self) -> None:
        self.probe.stop()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()


def test_what_is_found_out_once_nobody_asks_any_more_is_not_told() -> None:
    probe = Asked({"exec": {"command": ["true"]}})
    assert probe.arrived.wait(PATIENCE_SECONDS)
    probe.probe.stop()
    probe.go_on.set()
    probe.end()
    assert probe.answers == []
