"""ExportRDSSnapshotToLocation v0.1.0: one dump per phase and run."""

from __future__ import annotations

from typing import ClassVar

from kanister_py.functions.blueprint.export_rds_snapshot_to_location.v0_0_0 import (
    ExportRDSSnapshotToLocation,
)
from kanister_py.ports.function import OnRestart


class ExportRDSSnapshotToLocationV010(ExportRDSSnapshotToLocation):
    """Restores a snapshot to a temporary instance and dumps its databases to the object store.

    Like v0.0.0, except that the names of the instance and the dump are derived from the run:
    after a restart or at another attempt, an existing instance is used and the dump is
    overwritten.
    """

    version: ClassVar = "v0.1.0"
    on_restart = OnRestart.REPEAT
    naming_attempt = 0
