"""ExportRDSSnapshotToLocation v0.1.0: one dump for each phase of a run."""

from __future__ import annotations

from typing import ClassVar

from kanister_py.functions.blueprint.export_rds_snapshot_to_location.v0_0_0 import (
    ExportRDSSnapshotToLocation,
)
from kanister_py.ports.function import OnRestart


class ExportRDSSnapshotToLocationV010(ExportRDSSnapshotToLocation):
    """Makes a temporary instance of a snapshot, and dumps its databases into the store.

    As v0.0.0, but the instance and the dump are named by the run: after a restart, or at
    another attempt, the instance that is there is used, and the dump written over.
    """

    version: ClassVar = "v0.1.0"
    on_restart = OnRestart.REPEAT
    naming_attempt = 0
