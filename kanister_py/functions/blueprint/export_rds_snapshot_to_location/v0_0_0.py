"""ExportRDSSnapshotToLocation v0.0.0: dump of a PostgreSQL snapshot in the object store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.access import Access
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.pods import PodFunc
from kanister_py.functions.blueprint.rds import (
    INSTANCE,
    RdsArgs,
    as_yaml_list,
    groups_of,
    rds_of,
    read_list,
    subnets_of,
)
from kanister_py.functions.blueprint.rds_dumps import WRITE_DUMP, DumpArgs, run_script
from kanister_py.ports.function import OnRestart, PhaseContext
from kanister_py.ports.models import Outputs


class ExportRDSSnapshotArgs(DumpArgs, RdsArgs):
    """Arguments of ExportRDSSnapshotToLocation."""

    namespace: str = Field(description="The namespace in which the pod runs.")
    instance_id: str = Field(
        alias="instanceID",
        description="The identifier of the RDS instance that the snapshot was taken of.",
    )
    snapshot_id: str = Field(alias="snapshotID", description="The identifier of the snapshot.")
    db_engine: str = Field(description="The database engine. Only `PostgreSQL` is supported.")
    backup_artifact_prefix: str = Field(
        default="",
        description="Path of the dump in the store, below the prefix of the Profile; by "
        "default, the identifier of the instance.",
    )
    databases: Any = Field(
        default=None,
        description="The databases to dump, as a list or as a YAML string that contains a "
        "list; by default, all except templates, `postgres` and `rdsadmin`.",
    )
    security_group_id: Any = Field(
        default=None,
        alias="securityGroupID",
        description="The security groups of the temporary instance, as a list or as a YAML "
        "string that contains a list; by default, the groups of the original instance.",
    )
    db_subnet_group: str = Field(
        default="default",
        description="The DB subnet group of the temporary instance; `default` uses the group "
        "of the original instance.",
    )


class ExportRDSSnapshotOutputs(Outputs):
    """Outputs of ExportRDSSnapshotToLocation: the dump and its origin."""

    backup_id: str = Field(
        alias="backupID",
        description="The file name of the dump; the argument `backupID` of RestoreRDSSnapshot.",
    )
    snapshot_id: str = Field(alias="snapshotID", description="The identifier of the snapshot.")
    instance_id: str = Field(
        alias="instanceID", description="The identifier of the original instance."
    )
    security_group_id: str = Field(
        alias="securityGroupID",
        description="The security groups of the temporary instance, as a YAML list.",
    )


class ExportRDSSnapshotToLocation(PodFunc):
    """Restores a snapshot to a temporary instance and dumps its databases to the object store."""

    name = "ExportRDSSnapshotToLocation"
    version: ClassVar = "v0.0.0"
    Args = ExportRDSSnapshotArgs
    Outputs = ExportRDSSnapshotOutputs
    on_restart = OnRestart.FAIL
    naming_attempt: ClassVar[int | None] = None
    """Number of the attempt whose key is in the names; None for the current attempt."""

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> list[Access]:
        namespace = str(args.get("namespace") or "")
        secrets = Access("", "secrets", ("create", "delete"), namespace)
        return [*super().access(args), secrets]

    def exec(
        self, ctx: PhaseContext, params: Params, args: ExportRDSSnapshotArgs
    ) -> Mapping[str, Any]:
        if args.db_engine != "PostgreSQL":
            raise UsageError("Invalid RDSDBEngine or RDSAction", reason="InvalidArguments")
        rds = rds_of(ctx, params, args, INSTANCE)
        before = rds.find(args.instance_id) or {}
        groups = read_list(args.security_group_id) or groups_of(before)
        subnets = args.db_subnet_group
        if subnets == "default":
            subnets = subnets_of(before)
        key = ctx.run.key("export", attempt=self.naming_attempt)[:10]
        temporary = f"{args.instance_id}-{key}"
        backup = f"backup-{key}.tar.gz"
        path = f"{args.backup_artifact_prefix or args.instance_id}/{backup}"
        try:
            rds.restore(temporary, args.snapshot_id, groups=groups, subnets=subnets)
            endpoint = rds.require(temporary)["Endpoint"]
            databases = read_list(args.databases)
            run_script(ctx, params, self.name, args, endpoint, path, WRITE_DUMP, databases)
        finally:
            rds.delete(temporary)
        return {
            "backupID": backup,
            "snapshotID": args.snapshot_id,
            "instanceID": args.instance_id,
            "securityGroupID": as_yaml_list(groups),
        }
