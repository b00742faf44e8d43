"""CreateRDSSnapshot v0.1.0: one snapshot per phase and run."""

from __future__ import annotations

from typing import ClassVar

from kanister_py.functions.blueprint.create_rds_snapshot.v0_0_0 import CreateRDSSnapshot
from kanister_py.ports.function import OnRestart


class CreateRDSSnapshotV010(CreateRDSSnapshot):
    """Creates a snapshot of an RDS instance or Aurora cluster and waits until it is available.

    Like v0.0.0, except that the name of the snapshot is derived from the run: after a restart
    or at another attempt, an existing snapshot is used, and a snapshot that is still being
    created is waited for.
    """

    version: ClassVar = "v0.1.0"
    on_restart = OnRestart.REPEAT
    naming_attempt = 0
