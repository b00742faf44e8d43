"""CreateRDSSnapshot v0.1.0: one snapshot for each phase of a run."""

from __future__ import annotations

from typing import ClassVar

from kanister_py.functions.blueprint.create_rds_snapshot.v0_0_0 import CreateRDSSnapshot
from kanister_py.ports.function import OnRestart


class CreateRDSSnapshotV010(CreateRDSSnapshot):
    """Takes a snapshot of an RDS instance or an Aurora cluster, and waits until it is there.

    As v0.0.0, but it is named by the run: after a restart, or at another attempt, one that
    is there counts, and one that is being made is waited for.
    """

    version: ClassVar = "v0.1.0"
    on_restart = OnRestart.REPEAT
    naming_attempt = 0
