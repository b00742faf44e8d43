"""Readiness probes of containers, which run a command periodically."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kanister_py.ports.clock import Clock

_DEFAULT_PERIOD_SECONDS: Final = 10


class ReadinessProbe:
    """Readiness probe of one container, which runs in a thread of its own until it is stopped.

    `run` runs a command in the container and returns whether it succeeded in time; `report`
    receives the result once the thresholds of the probe are reached.
    """

    def __init__(
        self,
        probe: Mapping[str, Any],
        clock: Clock,
        *,
        run: Callable[[Sequence[str], float], bool],
        report: Callable[[bool], None],
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._run = run
        self._report = report
        self._changed = threading.Condition()
        self._is_stopped = False
        threading.Thread(target=self._loop, name="pods-probe", daemon=True).start()

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _loop(self) -> None:
        needed = int(self._probe.get("successThreshold") or 1)
        allowed = int(self._probe.get("failureThreshold") or 3)
        timeout_seconds = float(self._probe.get("timeoutSeconds") or 1)
        successes = failures = 0
        self._pause(float(self._probe.get("initialDelaySeconds") or 0))
        while not self._is_stopped:
            is_good = self._run(self._probe["exec"]["command"], timeout_seconds)
            successes, failures = (successes + 1, 0) if is_good else (0, failures + 1)
            is_sure = successes == needed if is_good else failures == allowed
            # The container may have ended while its command ran.
            if is_sure and not self._is_stopped:
                self._report(is_good)
            self._pause(float(self._probe.get("periodSeconds") or _DEFAULT_PERIOD_SECONDS))

    def _pause(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        with self._changed:
            while not self._is_stopped and (left := until - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left)
