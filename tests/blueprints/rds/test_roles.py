"""AWS roles: their temporary credentials open RDS and S3 on moto's server."""

from __future__ import annotations

import os
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.object_store_s3_parts import assume_role
from kanister_py.core.kube.locations import Credential, Location, StoreKind
from kanister_py.wiring import object_stores
from tests.blueprints.rds.instances import location, make_instance, output, run, snapshots

# Fixtures are found by name.
__all__ = ["location"]

ROLE = "arn:aws:iam::123456789012:role/backup"


@pytest.fixture
def with_role(rds: Any) -> Location:
    """A bucket that a role can access."""
    import boto3

    url = os.environ["AWS_ENDPOINT_URL_STS"]
    login = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **login)
    client.create_bucket(Bucket="roles")
    client.close()
    del rds
    credential = Credential("k", "s", ROLE)
    return Location(StoreKind.S3, "roles", url, "us-east-1", credential=credential)


def test_assumed_role_returns_temporary_keys(with_role: Location) -> None:
    credential = assume_role(with_role, SystemClock().now).credential
    assert credential.id.startswith("ASIA")
    assert credential.token
    assert (credential.secret != "s", credential.role) == (True, "")


def test_bucket_is_opened_with_a_role(with_role: Location) -> None:
    store = object_stores().open(with_role)
    store.put("a/b", [b"some", b" bytes"])
    assert b"".join(store.get("a/b")) == b"some bytes"
    assert store.delete(obj.key for obj in store.list("a/")) == 1


def test_snapshot_is_created_with_a_role(rds: Any, location: Location) -> None:
    make_instance(rds)
    args = {"instanceID": "app", "credentialsSource": "secret", "credentialsSecret": "aws"}
    secret = {"kind": "Secret", "name": "role", "namespace": "default"}
    created = output(run(location, "CreateRDSSnapshot", "v0.1.0", args, {"aws": secret}))
    assert snapshots(rds) == [created["snapshotID"]]
