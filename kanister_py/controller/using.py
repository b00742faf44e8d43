"""By how much does the cluster use each version, as of a moment ago?"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Condition, Thread
from typing import Final

from kanister_py.controller.status import read_status_data
from kanister_py.core.actionsets.uses import Uses
from kanister_py.core.errors import KanisterError
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.executor.find_uses import tally_uses
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster

_LOG: Final = logging.getLogger(__name__)
_EVERY_SECONDS: Final = 300.0
# Whoever starts has more urgent things to read.
_FIRST_SECONDS: Final = 10.0


class UseCounter:
    """Counts again and again, page by page, so that it never holds what it counts."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        registry: Registry[FunctionEntry],
        namespaces: Sequence[str],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._registry = registry
        self._namespaces = namespaces
        self._changed = Condition()
        self._is_closed = False
        self.uses: Uses | None = None
        """The last count, None while there is none."""

    def start(self) -> None:
        Thread(target=self._keep, name="uses", daemon=True).start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def count(self) -> None:
        """Count once."""
        tally = tally_uses(self._cluster, self._registry, self._namespaces, read_status_data)
        self.uses = tally.counts()

    def _keep(self) -> None:
        self._wait(_FIRST_SECONDS)
        while not self._is_closed:
            try:
                self.count()
            except KanisterError as error:
                _LOG.info("What the cluster uses is not counted this time: %s", error.message)
            except Exception:  # noqa: BLE001 # what somebody wrote into an object must not end it
                _LOG.exception("Counting what the cluster uses fell over")
            self._wait(_EVERY_SECONDS)

    def _wait(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        with self._changed:
            while not self._is_closed and (left := until - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left)
