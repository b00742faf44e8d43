"""Cluster clock: the time of the API server, which all replicas share."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final

from kanister_py.ports.clock import Clock

_LOG: Final = logging.getLogger(__name__)

_NOTICED_FROM: Final = timedelta(seconds=5)


class ClusterClock:
    """Clock that follows the API server's time, if it differs from the machine's by some seconds.

    Replicas read times that other replicas wrote, such as the start of an attempt and the time of
    the next one. Monotonic time is the machine's.
    """

    def __init__(self, machine: Clock) -> None:
        self._machine = machine
        self._ahead = timedelta(0)
        self.monotonic = machine.monotonic
        self.sleep = machine.sleep
        self.wait = machine.wait

    def now(self) -> datetime:
        return self._machine.now() + self._ahead

    def note(self, server_time: datetime) -> None:
        """Adjust the clock to the API server's time. Small differences are ignored.

        The API server's time is in whole seconds.
        """
        ahead = server_time - self._machine.now()
        if abs(ahead - self._ahead) < _NOTICED_FROM:
            return
        self._ahead = ahead if abs(ahead) >= _NOTICED_FROM else timedelta(0)
        _LOG.warning(
            "The clock of this machine differs from the API server's by %.0f s; using the API "
            "server's time",
            ahead.total_seconds(),
        )
