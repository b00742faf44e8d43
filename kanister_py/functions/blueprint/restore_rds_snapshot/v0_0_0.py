"""RestoreRDSSnapshot v0.0.0: an instance or a cluster, restored from a snapshot or a dump."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic import Field

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.access import Access
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.pods import PodFunc
from kanister_py.functions.blueprint.rds import (
    CLUSTER,
    Rds,
    RdsArgs,
    groups_of,
    rds_of,
    read_list,
    subnets_of,
)
from kanister_py.functions.blueprint.rds_dumps import READ_DUMP, DumpArgs, run_script
from kanister_py.ports.function import OnRestart, PhaseContext

_INSTANCE_CLASS: Final = "db.r5.large"


class RestoreRDSSnapshotArgs(DumpArgs, RdsArgs):
    """Arguments of RestoreRDSSnapshot."""

    instance_id: str = Field(
        alias="instanceID", description="The identifier of the RDS instance or Aurora cluster."
    )
    snapshot_id: str = Field(
        default="",
        alias="snapshotID",
        description="The identifier of the snapshot. If not set, a dump in the Profile's store "
        "is restored.",
    )
    backup_artifact_prefix: str = Field(
        default="",
        description="Path of the folder that contains the dump, below the prefix of the Profile.",
    )
    backup_id: str = Field(
        default="",
        alias="backupID",
        description="The file name of the dump: the output `backupID` of "
        "ExportRDSSnapshotToLocation.",
    )
    security_group_id: Any = Field(
        default=None,
        alias="securityGroupID",
        description="The security groups, as a list or as a YAML string that contains a list; "
        "by default, the groups of the existing instance or cluster.",
    )
    db_subnet_group: str = Field(
        default="default",
        description="The DB subnet group; `default` uses the group of the existing instance or "
        "cluster.",
    )


class RestoreRDSSnapshot(PodFunc):
    """Restores an RDS instance or Aurora cluster from a snapshot, or loads a dump into it.

    To restore a snapshot, the existing instance or cluster is deleted first: if the restore
    then fails, neither exists. A dump is loaded by `psql` in a pod; the output `endpoint` is
    then the address of the instance.
    """

    name = "RestoreRDSSnapshot"
    needs_pods = False  # restoring from a snapshot needs no pod
    version: ClassVar = "v0.0.0"
    Args = RestoreRDSSnapshotArgs
    on_restart = OnRestart.FAIL

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> list[Access]:
        return [] if args.get("snapshotID") else super().access(args)

    def exec(
        self, ctx: PhaseContext, params: Params, args: RestoreRDSSnapshotArgs
    ) -> Mapping[str, Any]:
        rds = rds_of(ctx, params, args)
        if not args.snapshot_id:
            return restore_dump(ctx, params, self.name, args, rds)
        before = rds.find(args.instance_id)
        rds.delete(args.instance_id)
        make(rds, args.instance_id, args, before)
        return {}


def make(
    rds: Rds, name: str, args: RestoreRDSSnapshotArgs, before: Mapping[str, Any] | None
) -> None:
    """Restore an instance or a cluster, with the settings of the previous one where possible."""
    groups = read_list(args.security_group_id) or groups_of(before or {})
    subnets = args.db_subnet_group
    if subnets == "default" and before is not None:
        subnets = subnets_of(before) or subnets
    subnet_group = "" if subnets == "default" else subnets
    rds.restore(name, args.snapshot_id, groups=groups, subnets=subnet_group)
    if rds.kind is CLUSTER:
        engine = str(rds.require(name)["Engine"])
        rds.add_instance(name, f"{name}-instance-1", engine, _INSTANCE_CLASS)


def restore_dump(
    ctx: PhaseContext, params: Params, function: str, args: RestoreRDSSnapshotArgs, rds: Rds
) -> Mapping[str, Any]:
    """Load a dump into an existing instance."""
    required = ("backupArtifactPrefix", args.backup_artifact_prefix), ("backupID", args.backup_id)
    for key, value in (*required, *args.login().items()):
        if not value:
            raise UsageError(
                f"Required arg missing: {key}, since there is no snapshotID",
                reason="InvalidArguments",
            )
    endpoint = rds.of_instances().require(args.instance_id)["Endpoint"]
    path = f"{args.backup_artifact_prefix}/{args.backup_id}"
    run_script(ctx, params, function, args, endpoint, path, READ_DUMP)
    return {"endpoint": endpoint["Address"]}
