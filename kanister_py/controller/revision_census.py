"""Which revisions of functions does the cluster have, and who uses each, as of a moment ago?"""

from __future__ import annotations

import logging
from threading import Condition, Thread
from typing import Any, Final

from kanister_py.core.errors import KanisterError
from kanister_py.executor.revision_inventory import read_inventory
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster

_LOG: Final = logging.getLogger(__name__)
_EVERY_SECONDS: Final = 60.0
# Whoever starts has more urgent things to read.
_FIRST_SECONDS: Final = 5.0


class RevisionCensus:
    """Reads them again and again, from a thread of its own."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._changed = Condition()
        self._is_closed = False
        self.revisions: list[dict[str, Any]] | None = None
        """What was found last, the same list for as long as it says the same."""

    def start(self) -> None:
        Thread(target=self._keep, name="revisions", daemon=True).start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def count(self) -> None:
        """Read them once."""
        inventory = read_inventory(self._cluster, composed=False)
        found = [each.told() for each in inventory.revisions if each.function is not None]
        if found != self.revisions:
            self.revisions = found

    def _keep(self) -> None:
        self._wait(_FIRST_SECONDS)
        while not self._is_closed:
            try:
                self.count()
            except KanisterError as error:
                _LOG.info("Revisions of functions are not read this time: %s", error.message)
            except Exception:  # noqa: BLE001 # what somebody wrote into an object must not end it
                _LOG.exception("Reading revisions of functions fell over")
            self._wait(_EVERY_SECONDS)

    def _wait(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        with self._changed:
            while not self._is_closed and (left := until - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left)
