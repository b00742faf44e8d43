"""RestoreRDSSnapshot v0.1.0: the old one is deleted once the new one is available."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kanister_py.core.errors import KanisterError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.rds import Rds, rds_of
from kanister_py.functions.blueprint.restore_rds_snapshot.v0_0_0 import (
    RestoreRDSSnapshot,
    RestoreRDSSnapshotArgs,
    make,
    restore_dump,
)
from kanister_py.ports.function import Func, OnRestart, PhaseContext


class RestoreRDSSnapshotV010(Func, parent=RestoreRDSSnapshot):
    """Restores an RDS instance or Aurora cluster from a snapshot, or loads a dump into it.

    To restore a snapshot, a new instance or cluster is created in addition to the existing
    one. Once it is available, the two exchange names, and the old one is deleted. If renaming
    fails, the old one gets its name back. After a restart, the restore continues where it was
    interrupted.
    """

    version: ClassVar = "v0.1.0"
    on_restart = OnRestart.REPEAT

    def exec(
        self, ctx: PhaseContext, params: Params, args: RestoreRDSSnapshotArgs
    ) -> Mapping[str, Any]:
        rds = rds_of(ctx, params, args)
        if not args.snapshot_id:
            return restore_dump(ctx, params, self.name, args, rds)
        key = ctx.run.key("restore", attempt=0)[:8]
        beside, old = f"{args.instance_id}-new-{key}", f"{args.instance_id}-old-{key}"
        if rds.find(old) is None or rds.find(beside) is not None:
            before = rds.find(args.instance_id) or rds.find(old)
            make(rds, beside, args, before)
            _swap(rds, args.instance_id, beside, old)
        rds.delete(old)
        return {}


def _swap(rds: Rds, name: str, beside: str, old: str) -> None:
    """Rename the new instance to `name`; if that fails, rename the old one back."""
    if rds.find(old) is None and rds.find(name) is not None:
        _rename(rds, name, old)
    try:
        _rename(rds, beside, name)
    except KanisterError:
        if rds.find(old) is not None and rds.find(name) is None:
            _rename(rds, old, name)
        raise


def _rename(rds: Rds, name: str, new_name: str) -> None:
    rds.call(
        f"Failed to rename {rds.kind.noun} {name} to {new_name}",
        f"modify_db_{rds.kind.noun}",
        **{
            rds.kind.id: name,
            f"New{rds.kind.id}": new_name,
            "ApplyImmediately": True,
        },
    )
    rds.wait_available(new_name)
