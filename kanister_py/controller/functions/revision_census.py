"""Which revisions of functions does the cluster have, and who uses each, as of a moment ago?"""

from __future__ import annotations

from typing import Any

from kanister_py.controller.machine.repeating import Repeating
from kanister_py.executor.revision_inventory import read_inventory
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster


class RevisionCensus(Repeating):
    """Reads them again and again."""

    what = "revisions of functions"
    first_seconds = 5.0
    every_seconds = 60.0

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        super().__init__(clock)
        self._cluster = cluster
        self.revisions: list[dict[str, Any]] | None = None
        """What was found last, the same list for as long as it says the same."""

    def count(self) -> None:
        inventory = read_inventory(self._cluster, composed=False)
        found = [each.told() for each in inventory.revisions if each.function is not None]
        if found != self.revisions:
            self.revisions = found
