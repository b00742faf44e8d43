"""Revision census: revisions of functions on the cluster and who uses each, as of a moment ago."""

from __future__ import annotations

from typing import Any, Final

from kanister_py.controller.machine.repeating import Repeating
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.executor.revision_inventory import read_inventory
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster

_FIRST_SECONDS: Final = 5.0
_EVERY_SECONDS: Final = 60.0


class RevisionCensus:
    """What was found last, the same list for as long as it says the same."""

    def __init__(self, cluster: Cluster, entries: Registry[FunctionEntry]) -> None:
        self._cluster = cluster
        self._entries = entries
        self.revisions: list[dict[str, Any]] | None = None

    def count(self) -> None:
        inventory = read_inventory(self._cluster, self._entries, composed=False)
        found = [each.as_data() for each in inventory.revisions if each.function is not None]
        if found != self.revisions:
            self.revisions = found

    def every_now_and_then(self, clock: Clock) -> Repeating:
        return Repeating(
            clock,
            "the census of revisions",
            self.count,
            first_seconds=_FIRST_SECONDS,
            every_seconds=_EVERY_SECONDS,
        )
