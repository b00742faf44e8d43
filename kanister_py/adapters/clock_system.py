"""System clock: the time of the machine, and waits in real time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from threading import Condition


class SystemClock:
    """Clock of the machine: its time, and waits in real time."""

    # Called very often, so these are not wrapped in methods.
    now = staticmethod(partial(datetime.now, UTC))  # noqa: TID251 # the only place that reads the system clock
    monotonic = staticmethod(time.monotonic)

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))

    def wait(self, condition: Condition, timeout_seconds: float | None = None) -> bool:
        return condition.wait(timeout_seconds)
