"""CreateRDSSnapshot v0.1.0: one snapshot for each phase of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.create_rds_snapshot.v0_0_0 import (
    CreateRDSSnapshot,
    CreateRDSSnapshotArgs,
    take,
)
from kanister_py.ports.function import Func, OnRestart, PhaseContext


class CreateRDSSnapshotV010(Func, parent=CreateRDSSnapshot):
    """Takes a snapshot of an RDS instance or an Aurora cluster, and waits until it is there.

    As v0.0.0, but it is named by the run: after a restart, or at another attempt, one that
    is there counts, and one that is being made is waited for.
    """

    version: ClassVar = "v0.1.0"
    on_restart = OnRestart.REPEAT

    def exec(
        self, ctx: PhaseContext, params: Params, args: CreateRDSSnapshotArgs
    ) -> Mapping[str, Any]:
        key = ctx.run.key("snapshot", attempt=0)[:10]
        return take(ctx, params, args, f"{args.instance_id}-{key}")
