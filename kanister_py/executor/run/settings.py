"""Settings of a run: where and how it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.executor.run.state import Onlooker
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster


class RunSettings(NamedTuple):
    """Where and how a run runs.

    Without a `cluster` it gets one of its own, in memory, with `objects` in it, and
    kept in the folder `state` if one is named.
    `checks_access` asks a cluster for the rights that the phases need before the first of
    them acts. `pods` may be `processes`, which runs commands on this machine; there the
    folder `locations` stands in for every store of a Profile, if one is named.
    """

    objects: Sequence[Mapping[str, Any]] = ()
    cluster: Cluster | None = None
    state: Path | None = None
    pods: str = ""
    locations: Path | None = None
    name: str = ""
    namespace: str = "default"
    registry: Registry[FunctionEntry] | None = None
    is_strict: bool = False
    onlooker: Onlooker | None = None
    checks_access: bool = False
    clock: Clock | None = None
    workers: int = 32

    @property
    def hosting(self) -> dict[str, str]:
        """What runs pods and stands in for stores, as the journal of a run keeps it."""
        locations = str(self.locations.absolute()) if self.locations is not None else ""
        found = {"pods": self.pods, "locations": locations}
        return {key: each for key, each in found.items() if each}
