"""RDS instances, clusters and snapshots in a mock of AWS."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.runs import RunSettings, run_actionset
from tests.stores import running_store


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    with running_store(StoreKind.S3, tmp_path_factory.mktemp("s3")) as location:
        yield location


def encoded(**data: str) -> dict[str, str]:
    return {key: b64encode(value.encode()).decode() for key, value in data.items()}


def objects(location: Location) -> list[dict[str, Any]]:
    """Return a Profile, its Secret, and a Secret of AWS."""
    secret = {"name": "creds", "namespace": "default"}
    credential = location.credential
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": secret,
            "data": encoded(id=credential.id, secret=credential.secret),
        },
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Profile",
            "metadata": {"name": "s3", "namespace": "default"},
            "location": {
                "type": "s3Compliant",
                "bucket": location.bucket,
                "endpoint": location.endpoint,
                "region": "us-east-1",
            },
            "credential": {
                "type": "keyPair",
                "keyPair": {"idField": "id", "secretField": "secret", "secret": secret},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "aws", "namespace": "default"},
            "data": encoded(aws_access_key_id="k", aws_secret_access_key="s"),
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "role", "namespace": "default"},
            "data": encoded(
                aws_access_key_id="k",
                aws_secret_access_key="s",
                role="arn:aws:iam::123456789012:role/backup",
            ),
        },
    ]


def run(
    location: Location,
    func: str,
    version: str,
    args: Mapping[str, Any],
    referred: Mapping[str, Any] | None = None,
    **action: Any,
) -> Mapping[str, Any]:
    """Run one phase, and return the status of the ActionSet."""
    phase = {"func": func, "name": "p", "funcVersion": version, "args": dict(args)}
    if referred:
        phase["objects"] = dict(referred)
    blueprint = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "rds", "namespace": "default"},
        "actions": {"act": {"phases": [phase]}},
    }
    about = {"kind": "Namespace", "name": "default", "namespace": "default"}
    expected = {
        "name": "act",
        "blueprint": "rds",
        "object": about,
        "profile": {"name": "s3", "namespace": "default"},
        **action,
    }
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"actions": [expected]},
    }
    settings = RunSettings(objects=objects(location), pods="processes")
    return run_actionset(actionset, [blueprint], settings).wait(180).status


def output(status: Mapping[str, Any]) -> Mapping[str, str]:
    assert status["state"] == "complete", status["error"]
    outputs: Mapping[str, str] = status["actions"][0]["phases"][0].get("output") or {}
    return outputs


def make_instance(rds: Any, name: str = "app", port: int = 5432) -> None:
    rds.create_db_instance(
        DBInstanceIdentifier=name,
        DBInstanceClass="db.t3.small",
        Engine="postgres",
        AllocatedStorage=20,
        MasterUsername="postgres",
        MasterUserPassword="password",
        Port=port,
        VpcSecurityGroupIds=["sg-1", "sg-2"],
    )


def instances(rds: Any) -> list[str]:
    return sorted(
        dbinstance["DBInstanceIdentifier"]
        for dbinstance in rds.describe_db_instances()["DBInstances"]
    )


def snapshots(rds: Any) -> list[str]:
    listed = rds.describe_db_snapshots()["DBSnapshots"]
    return [
        snapshot["DBSnapshotIdentifier"]
        for snapshot in listed
        if not snapshot["DBSnapshotIdentifier"].startswith("rds:")
    ]


def cluster_snapshots(rds: Any) -> list[str]:
    listed = rds.describe_db_cluster_snapshots()["DBClusterSnapshots"]
    names = [snapshot["DBClusterSnapshotIdentifier"] for snapshot in listed]
    return [name for name in names if not name.startswith("rds:")]


def clusters(rds: Any) -> list[str]:
    return sorted(
        dbcluster["DBClusterIdentifier"] for dbcluster in rds.describe_db_clusters()["DBClusters"]
    )
