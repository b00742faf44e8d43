"""Settings of a run: cluster, pods and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.executor.run.state import RunObserver
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster


class RunSettings(NamedTuple):
    """Settings of a run.

    Without a `cluster` the run gets its own cluster in memory, which contains `objects` and
    is stored in the folder `state`, if that is set. `checks_access` checks the rights of all
    phases before the first one starts. With `pods` set to `processes`, commands run on this
    machine, and the folder `locations`, if set, replaces the stores of all Profiles.
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
    observer: RunObserver | None = None
    checks_access: bool = False
    clock: Clock | None = None
    workers: int = 32

    @property
    def hosting(self) -> dict[str, str]:
        """Settings of pods and stores for the journal of a run."""
        locations = str(self.locations.absolute()) if self.locations is not None else ""
        settings = {"pods": self.pods, "locations": locations}
        return {key: value for key, value in settings.items() if value}
