"""By how much does the cluster use each version, as of a moment ago?"""

from __future__ import annotations

from collections.abc import Sequence

from kanister_py.controller.actionsets.status import read_status_data
from kanister_py.controller.machine.repeating import Repeating
from kanister_py.core.actionsets.uses import Uses
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.executor.find_uses import tally_uses
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster


class UseCounter(Repeating):
    """Counts page by page, so that it never holds what it counts."""

    what = "uses of functions"
    first_seconds = 10.0
    every_seconds = 300.0

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        registry: Registry[FunctionEntry],
        namespaces: Sequence[str],
    ) -> None:
        super().__init__(clock)
        self._cluster = cluster
        self._registry = registry
        self._namespaces = namespaces
        self.uses: Uses | None = None
        """The last count, None while there is none."""

    def count(self) -> None:
        tally = tally_uses(self._cluster, self._registry, self._namespaces, read_status_data)
        self.uses = tally.counts()
