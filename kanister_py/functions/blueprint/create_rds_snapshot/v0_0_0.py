"""CreateRDSSnapshot v0.0.0: a snapshot of an RDS instance or an Aurora cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.kube.access import Access
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.rds import RdsArgs, as_yaml_list, groups_of, rds_of, subnets_of
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Outputs


class CreateRDSSnapshotArgs(RdsArgs):
    """Arguments of CreateRDSSnapshot."""

    instance_id: str = Field(
        alias="instanceID", description="The identifier of the RDS instance or Aurora cluster."
    )


class CreateRDSSnapshotOutputs(Outputs):
    """Outputs of CreateRDSSnapshot: the information that a later restore needs."""

    snapshot_id: str = Field(alias="snapshotID", description="The identifier of the snapshot.")
    instance_id: str = Field(
        alias="instanceID", description="The identifier of the instance or cluster."
    )
    security_group_id: str = Field(
        alias="securityGroupID",
        description="The security groups of the instance or cluster, as a YAML list.",
    )
    allocated_storage: str = Field(
        description="The allocated storage of the snapshot, such as `20GiB`."
    )
    db_subnet_group: str = Field(description="The DB subnet group of the instance or cluster.")


class CreateRDSSnapshot(Func):
    """Creates a snapshot of an RDS instance or Aurora cluster and waits until it is available."""

    name = "CreateRDSSnapshot"
    version: ClassVar = "v0.0.0"
    Args = CreateRDSSnapshotArgs
    Outputs = CreateRDSSnapshotOutputs
    on_restart = OnRestart.FAIL
    naming_attempt: ClassVar[int | None] = None
    """Number of the attempt whose key is in the snapshot's name; None for the current attempt."""

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        del args
        return []

    def exec(
        self, ctx: PhaseContext, params: Params, args: CreateRDSSnapshotArgs
    ) -> Mapping[str, Any]:
        key = ctx.run.key("snapshot", attempt=self.naming_attempt)[:10]
        name = f"{args.instance_id}-{key}"
        rds = rds_of(ctx, params, args)
        source = rds.require(args.instance_id)
        snapshot = rds.take_snapshot(name, args.instance_id)
        return {
            "snapshotID": name,
            "instanceID": args.instance_id,
            "securityGroupID": as_yaml_list(groups_of(source)),
            "allocatedStorage": f"{snapshot.get('AllocatedStorage', 0)}GiB",
            "dbSubnetGroup": subnets_of(source),
        }
