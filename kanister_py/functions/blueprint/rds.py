"""RDS: instances, Aurora clusters, their snapshots, and the credentials to access them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import yaml
from pydantic import Field

from kanister_py.core.errors import TransientError, UsageError
from kanister_py.core.kube.locations import (
    Credential,
    InvalidProfile,
    Location,
    StoreKind,
    read_location,
)
from kanister_py.core.templates.params import Params
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args

AURORA_ENGINES: Final = ("aurora", "aurora-mysql", "aurora-postgresql")
_TRANSIENT: Final = (
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "InternalFailure",
    "ServiceUnavailable",
)
_BROKEN: Final = (
    "failed",
    "incompatible-restore",
    "incompatible-network",
    "storage-full",
    "incompatible-parameters",
    "restore-error",
)
_WAIT_SECONDS: Final = 4 * 3600.0


class RdsArgs(Args):
    """Arguments of all functions for RDS."""

    db_engine: str = Field(
        default="",
        description="The database engine; `aurora`, `aurora-mysql` and `aurora-postgresql` "
        "denote an Aurora cluster, other values an RDS instance.",
    )
    credentials_source: Literal["", "profile", "secret", "eks_service_account"] = Field(
        default="profile",
        description="The source of the AWS credential: the Profile (`profile`), a Secret "
        "(`secret`), or the environment of the process (`eks_service_account`).",
    )
    credentials_secret: str = Field(
        default="",
        description="The name of the Secret if the source is `secret`; one of the Secrets of "
        "the ActionSet or of the phase's `objects`.",
    )
    region: str = Field(
        default="", description="The AWS region; by default, the region of the Profile's location."
    )


class Kind(NamedTuple):
    """Names that the RDS API uses for instances or for clusters."""

    noun: str
    id: str
    status: str
    snapshot_id: str
    listed: str
    snapshots: str

    def operation(self, verb: str, suffix: str = "") -> str:
        return f"{verb}_db_{'cluster_' if self is CLUSTER else ''}{suffix}".rstrip("_")


INSTANCE = Kind(
    "instance",
    "DBInstanceIdentifier",
    "DBInstanceStatus",
    "DBSnapshotIdentifier",
    "DBInstances",
    "DBSnapshots",
)
CLUSTER = Kind(
    "cluster",
    "DBClusterIdentifier",
    "Status",
    "DBClusterSnapshotIdentifier",
    "DBClusters",
    "DBClusterSnapshots",
)


def kind_of(engine: str) -> Kind:
    """Return CLUSTER for Aurora engines, else INSTANCE."""
    return CLUSTER if engine.lower() in AURORA_ENGINES else INSTANCE


# Credentials


def rds_of(ctx: PhaseContext, params: Params, args: RdsArgs, kind: Kind | None = None) -> Rds:
    """Create a client for RDS with the credential selected in the arguments."""
    region, credential = args.region, None
    profile = params.facts.profile
    if not region and profile is not None:
        region = profile.location.get("region", "")
    match args.credentials_source:
        case "secret":
            if not args.credentials_secret:
                raise UsageError(
                    "credentialsSecret is required if credentialsSource is set to 'secret'",
                    reason="InvalidArguments",
                )
            credential = _from_secret(ctx, params, args.credentials_secret, region)
        case "eks_service_account":
            if ctx.confinement is not None:
                ctx.confinement.check_ambient_credentials("credentialsSource eks_service_account")
        case _:
            credential = _from_profile(ctx, params, region)
    return Rds(ctx, _client(credential, region), kind or kind_of(args.db_engine))


def _from_profile(ctx: PhaseContext, params: Params, region: str) -> Credential:
    profile = params.facts.profile
    if profile is None:
        raise InvalidProfile("Failed to validate Profile: Profile must be non-nil")
    pair = (profile.key_pair.id, profile.key_pair.secret) if profile.key_pair else None
    place = {"type": StoreKind.S3, "region": region}
    return ctx.stores.with_keys(read_location(place, pair, profile.secret)).credential


def _from_secret(ctx: PhaseContext, params: Params, name: str, region: str) -> Credential:
    secret = params.facts.secrets.get(name)
    if secret is None:
        phases = params.root["Phases"]
        # The deferPhase has a key of its own in the template parameters.
        current = phases[ctx.run.phase] if ctx.run.phase in phases else params.root["DeferPhase"]
        held = current["Secrets"].get(name)
        if held is None:
            raise UsageError(
                f"Secret {name} is neither among those of the ActionSet nor of the phase's objects",
                reason="SecretNotFound",
            )
        data = {key: bytes(value).decode() for key, value in held["Data"].items()}
    else:
        data = {key: b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
    credential = Credential(
        data.get("aws_access_key_id") or data.get("access_key_id", ""),
        data.get("aws_secret_access_key") or data.get("secret_access_key", ""),
        data.get("role", ""),
    )
    return ctx.stores.with_keys(
        Location(StoreKind.S3, "", region=region, credential=credential)
    ).credential


def _client(credential: Credential | None, region: str) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise UsageError(
            "Functions of RDS need boto3: pip install 'kanister-py[aws]'", reason="ExtraMissing"
        ) from error
    keys = {}
    if credential is not None:
        keys = {
            "aws_access_key_id": credential.id,
            "aws_secret_access_key": credential.secret,
            "aws_session_token": credential.token or None,
        }
    retries = Config(retries={"mode": "standard", "max_attempts": 8})
    with prefix_errors("Failed to get AWS session"):
        return boto3.client("rds", region_name=region or None, config=retries, **keys)


@contextmanager
def prefix_errors(words: str) -> Iterator[None]:
    """Convert the errors of botocore, with a prefix for the message."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        refusal = error.response.get("Error", {})
        code, message = str(refusal.get("Code", "")), str(refusal.get("Message", "")).rstrip(".")
        text = f"{words}: {code}: {message}"
        if code in _TRANSIENT:
            raise TransientError(text, reason=code) from error
        raise UsageError(text, reason=code or "AwsRefused") from error
    except BotoCoreError as error:
        raise TransientError(f"{words}: {error}", reason="AwsUnreachable") from error


# Instances, clusters and snapshots


@dataclass(frozen=True, slots=True)
class Rds:
    """Instances or clusters of RDS, and their snapshots."""

    ctx: PhaseContext
    client: Any
    kind: Kind

    def call(self, words: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        self.ctx.check_cancelled()
        with self.ctx.idle(), prefix_errors(words):
            answer: Mapping[str, Any] = getattr(self.client, operation)(
                **{
                    key: argument
                    for key, argument in parameters.items()
                    if argument not in (None, "", [])
                }
            )
        return answer

    def _find(self, operation: str, listed: str, **parameters: Any) -> Mapping[str, Any] | None:
        try:
            response = self.call(
                f"Failed to look for {next(iter(parameters.values()))}", operation, **parameters
            )
        except UsageError as error:
            if "NotFound" in error.reason:
                return None
            raise
        return next(iter(response[listed]), None)

    def find(self, name: str) -> Mapping[str, Any] | None:
        """Return the description of an instance or a cluster, or None if there is none."""
        operation = f"describe_db_{self.kind.noun}s"
        return self._find(operation, self.kind.listed, **{self.kind.id: name})

    def find_snapshot(self, name: str) -> Mapping[str, Any] | None:
        operation = self.kind.operation("describe", "snapshots")
        return self._find(operation, self.kind.snapshots, **{self.kind.snapshot_id: name})

    def require(self, name: str) -> Mapping[str, Any]:
        description = self.find(name)
        if description is None:
            raise UsageError(f"There is no RDS {self.kind.noun} {name}", reason="NoDatabase")
        return description

    def take_snapshot(self, name: str, of: str) -> Mapping[str, Any]:
        """Create a snapshot unless it exists, and wait until it is available."""
        if self.find_snapshot(name) is None:
            self.call(
                "Failed to create snapshot",
                self.kind.operation("create", "snapshot"),
                **{self.kind.snapshot_id: name, self.kind.id: of},
            )
        return self._wait(lambda: self.find_snapshot(name), "Status", f"snapshot {name}")

    def wait_created(self, name: str) -> None:
        """Wait while a snapshot is being created. A missing snapshot is not waited for."""
        self.ctx.wait(
            lambda: (self.find_snapshot(name) or {}).get("Status") != "creating",
            timeout_seconds=_WAIT_SECONDS,
            what=f"RDS snapshot {name} to be made",
        )

    def delete_snapshot(self, name: str) -> None:
        """Delete a snapshot and wait until it is gone. A missing snapshot is not an error."""
        try:
            self.call(
                f"Failed to delete snapshot {name}",
                self.kind.operation("delete", "snapshot"),
                **{self.kind.snapshot_id: name},
            )
        except UsageError as error:
            if "NotFound" not in error.reason:
                raise
        self._wait_gone(lambda: self.find_snapshot(name), f"snapshot {name}")

    def wait_available(self, name: str) -> Mapping[str, Any]:
        what = f"{self.kind.noun} {name}"
        return self._wait(lambda: self.find(name), self.kind.status, what)

    def delete(self, name: str) -> None:
        """Delete an instance, or a cluster with its instances, without a final snapshot."""
        description = self.find(name)
        if description is None:
            return
        for member in description.get("DBClusterMembers") or ():
            self.of_instances().delete(member["DBInstanceIdentifier"])
        try:
            self.call(
                f"Failed to delete {self.kind.noun} {name}",
                f"delete_db_{self.kind.noun}",
                **{self.kind.id: name, "SkipFinalSnapshot": True},
            )
        except UsageError as error:
            if "NotFound" not in error.reason and "InvalidDB" not in error.reason:
                raise
        self._wait_gone(lambda: self.find(name), f"{self.kind.noun} {name}")

    def restore(self, name: str, snapshot: str, *, groups: Sequence[str], subnets: str) -> None:
        """Restore an instance or a cluster from a snapshot, and wait until it is available."""
        source = self.find_snapshot(snapshot)
        if source is None:
            raise UsageError(f"There is no snapshot {snapshot}", reason="NoSnapshot")
        if self.find(name) is None:
            common = {"VpcSecurityGroupIds": [*groups], "DBSubnetGroupName": subnets}
            if self.kind is CLUSTER:
                self.call(
                    f"Failed to restore cluster {name}",
                    "restore_db_cluster_from_snapshot",
                    DBClusterIdentifier=name,
                    SnapshotIdentifier=snapshot,
                    Engine=source["Engine"],
                    EngineVersion=source.get("EngineVersion"),
                    **common,
                )
            else:
                self.call(
                    f"Failed to restore instance {name}",
                    "restore_db_instance_from_db_snapshot",
                    DBInstanceIdentifier=name,
                    DBSnapshotIdentifier=snapshot,
                    **common,
                )
        self.wait_available(name)

    def add_instance(self, cluster: str, name: str, engine: str, size: str) -> None:
        """Add an instance to a cluster; without one, no connections are possible."""
        instances = self.of_instances()
        if instances.find(name) is None:
            self.call(
                f"Failed to create instance {name} in cluster {cluster}",
                "create_db_instance",
                DBInstanceIdentifier=name,
                DBClusterIdentifier=cluster,
                DBInstanceClass=size,
                Engine=engine,
            )
        instances.wait_available(name)

    def of_instances(self) -> Rds:
        return Rds(self.ctx, self.client, INSTANCE)

    def _wait(self, find: Any, status: str, what: str) -> Mapping[str, Any]:
        def is_available() -> Mapping[str, Any] | None:
            description: Mapping[str, Any] | None = find()
            state = "" if description is None else str(description.get(status, ""))
            if state in _BROKEN:
                raise UsageError(f"RDS {what} is {state}", reason="RdsFailed")
            return description if state == "available" else None

        description: Mapping[str, Any] = self.ctx.wait(
            is_available, timeout_seconds=_WAIT_SECONDS, what=f"RDS {what} to be available"
        )
        return description

    def _wait_gone(self, find: Any, what: str) -> None:
        self.ctx.wait(
            lambda: find() is None,
            timeout_seconds=_WAIT_SECONDS,
            what=f"RDS {what} to be gone",
        )


def groups_of(description: Mapping[str, Any]) -> list[str]:
    """Return the security groups of an instance or a cluster."""
    return [group["VpcSecurityGroupId"] for group in description.get("VpcSecurityGroups") or ()]


def subnets_of(description: Mapping[str, Any]) -> str:
    """Return the DB subnet group of an instance or a cluster."""
    group = description.get("DBSubnetGroup") or ""
    return str(group if isinstance(group, str) else group.get("DBSubnetGroupName", ""))


def as_yaml_list(values: Sequence[str]) -> str:
    """Format names as a YAML list, the form in which blueprints pass them on."""
    return yaml.safe_dump([*values], default_flow_style=False) if values else "[]\n"


def read_list(value: Any) -> list[str]:
    """Read a list, or a string that contains a YAML list."""
    if isinstance(value, str):
        try:
            value = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UsageError(f"{value!r} is no list: {error}", reason="InvalidArguments") from error
    if value is None:
        return []
    return [str(element) for element in value] if isinstance(value, list) else [str(value)]
