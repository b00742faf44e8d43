"""DeleteRDSSnapshot v0.0.0: deletion of a snapshot of RDS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.kube.access import Access
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.rds import RdsArgs, rds_of
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Outputs


class DeleteRDSSnapshotArgs(RdsArgs):
    """Arguments of DeleteRDSSnapshot."""

    snapshot_id: str = Field(alias="snapshotID", description="The identifier of the snapshot.")


class DeleteRDSSnapshot(Func):
    """Deletes a snapshot and waits until it is gone.

    A snapshot that does not exist is not an error.
    """

    name = "DeleteRDSSnapshot"
    version: ClassVar = "v0.0.0"
    Args = DeleteRDSSnapshotArgs
    Outputs = Outputs
    on_restart = OnRestart.REPEAT

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        del args
        return []

    def exec(self, ctx: PhaseContext, params: Params, args: DeleteRDSSnapshotArgs) -> None:
        rds_of(ctx, params, args).delete_snapshot(args.snapshot_id)
