"""Usage census: versions in use on the cluster, as of a moment ago."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kanister_py.controller.machine.repeating import Repeating
from kanister_py.core.actionsets.uses import Uses
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.executor.find_uses import tally_uses
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster

_FIRST_SECONDS: Final = 10.0
_EVERY_SECONDS: Final = 300.0


class UsageCensus:
    """Counts page by page, so that it never holds what it counts."""

    def __init__(
        self, cluster: Cluster, registry: Registry[FunctionEntry], namespaces: Sequence[str]
    ) -> None:
        self._cluster = cluster
        self._registry = registry
        self._namespaces = namespaces
        self.uses: Uses | None = None
        """The last count, None while there is none."""

    def count(self) -> None:
        tally = tally_uses(self._cluster, self._registry, self._namespaces)
        self.uses = tally.counts()

    def every_now_and_then(self, clock: Clock) -> Repeating:
        return Repeating(
            clock,
            "the census of versions in use",
            self.count,
            first_seconds=_FIRST_SECONDS,
            every_seconds=_EVERY_SECONDS,
        )
