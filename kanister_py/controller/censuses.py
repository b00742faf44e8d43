"""Periodic counts of the versions and revisions of functions in use on the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kanister_py.controller.machine.periodic import PeriodicTask
from kanister_py.core.actionsets.uses import Uses
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.executor.count_uses import tally_uses
from kanister_py.executor.refused_reads import RefusedReads
from kanister_py.executor.revision_inventory import read_inventory
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster


class UsageCensus:
    """Count of the versions in use, page by page, so that memory does not grow with the objects."""

    def __init__(
        self,
        cluster: Cluster,
        registry: Registry[FunctionEntry],
        namespaces: Sequence[str],
        refused: RefusedReads,
    ) -> None:
        self._cluster = cluster
        self._registry = registry
        self._namespaces = namespaces
        self._refused = refused
        self.uses: Uses | None = None
        """The last count; None before the first."""

    def count(self) -> None:
        tally = tally_uses(self._cluster, self._registry, self._namespaces, self._refused)
        self.uses = tally.counts()

    def as_periodic_task(self, clock: Clock) -> PeriodicTask:
        name = "the census of versions in use"
        return PeriodicTask(clock, name, self.count, first_seconds=10.0, every_seconds=300.0)


class RevisionCensus:
    """List of revisions with their users; the list object is replaced only if it changes."""

    def __init__(self, cluster: Cluster, entries: Registry[FunctionEntry]) -> None:
        self._cluster = cluster
        self._entries = entries
        self.revisions: list[dict[str, Any]] | None = None

    def count(self) -> None:
        inventory = read_inventory(self._cluster, self._entries, composed=False)
        revisions = [
            revision.as_data() for revision in inventory.revisions if revision.function is not None
        ]
        if revisions != self.revisions:
            self.revisions = revisions

    def as_periodic_task(self, clock: Clock) -> PeriodicTask:
        name = "the census of revisions"
        return PeriodicTask(clock, name, self.count, first_seconds=5.0, every_seconds=60.0)
