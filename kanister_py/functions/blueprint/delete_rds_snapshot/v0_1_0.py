"""DeleteRDSSnapshot v0.1.0: deletion of a snapshot of RDS in any state."""

from __future__ import annotations

from typing import ClassVar

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.delete_rds_snapshot.v0_0_0 import (
    DeleteRDSSnapshot,
    DeleteRDSSnapshotArgs,
)
from kanister_py.functions.blueprint.rds import rds_of
from kanister_py.ports.function import Func, OnRestart, PhaseContext


class DeleteRDSSnapshotV010(Func, parent=DeleteRDSSnapshot):
    """Deletes a snapshot and waits until it is gone.

    Like v0.0.0, except that a snapshot that is still being created, for example by a run that
    was stopped, is waited for first, because RDS refuses to delete it.
    """

    version: ClassVar = "v0.1.0"
    on_restart = OnRestart.REPEAT

    def exec(self, ctx: PhaseContext, params: Params, args: DeleteRDSSnapshotArgs) -> None:
        rds = rds_of(ctx, params, args)
        rds.wait_created(args.snapshot_id)
        rds.delete_snapshot(args.snapshot_id)
