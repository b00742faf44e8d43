"""ExportRDSSnapshotToLocation v0.1.0: one dump for each phase of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.export_rds_snapshot_to_location.v0_0_0 import (
    ExportRDSSnapshotArgs,
    ExportRDSSnapshotToLocation,
    export,
)
from kanister_py.ports.function import Func, OnRestart, PhaseContext


class ExportRDSSnapshotToLocationV010(Func, parent=ExportRDSSnapshotToLocation):
    """Makes a temporary instance of a snapshot, and dumps its databases into the store.

    As v0.0.0, but the instance and the dump are named by the run: after a restart, or at
    another attempt, the instance that is there is used, and the dump written over.
    """

    version: ClassVar = "v0.1.0"
    on_restart = OnRestart.REPEAT

    def exec(
        self, ctx: PhaseContext, params: Params, args: ExportRDSSnapshotArgs
    ) -> Mapping[str, Any]:
        return export(ctx, params, self.name, args, ctx.run.key("export", attempt=0)[:10])
