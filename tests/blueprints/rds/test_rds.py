"""Blueprints of RDS on moto's server, and their dumps of a real PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest
import urllib3

from kanister_py.core.kube.locations import Location
from kanister_py.wiring import object_stores
from tests.blueprints.rds.instances import (
    cluster_snapshots,
    clusters,
    instances,
    location,
    make_instance,
    output,
    run,
    snapshots,
)
from tests.blueprints.servers import PASSWORD, Server
from tests.faulty_stores import ALWAYS, Fault, Faults, faulty

__all__ = ["location"]

VERSIONS = ["v0.0.0", "v0.1.0"]
BUSY = b"""<ErrorResponse><Error><Type>Sender</Type><Code>InvalidDBSnapshotState</Code>
<Message>Cannot delete the snapshot because it is being created</Message></Error></ErrorResponse>"""


@contextmanager
def slow_snapshots(monkeypatch: pytest.MonkeyPatch, looks: int) -> Iterator[None]:
    """Report snapshots as `creating` for some requests, and refuse their deletion until then."""
    url, left = os.environ["AWS_ENDPOINT_URL_RDS"], [looks]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request_body = self.rfile.read(int(self.headers["content-length"]))
            if left[0] and b"DeleteDBSnapshot" in request_body:
                status, body = 400, BUSY
            else:
                headers = dict(self.headers.items())
                response = urllib3.request("POST", url, body=request_body, headers=headers)
                status, body = response.status, response.data
            if left[0] and b"DescribeDBSnapshots" in request_body:
                left[0] -= 1
                body = body.replace(b"<Status>available<", b"<Status>creating<")
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        with monkeypatch.context() as patched:
            patched.setenv("AWS_ENDPOINT_URL_RDS", f"http://127.0.0.1:{server.server_port}")
            yield
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("version", "left"),
    [pytest.param("v0.0.0", 1, id="refused"), pytest.param("v0.1.0", 0, id="waited for")],
)
def test_deleting_a_snapshot_that_is_being_created(
    rds: Any, location: Location, monkeypatch: pytest.MonkeyPatch, version: str, left: int
) -> None:
    make_instance(rds)
    rds.create_db_snapshot(DBSnapshotIdentifier="begun", DBInstanceIdentifier="app")
    with slow_snapshots(monkeypatch, 2):
        status = run(location, "DeleteRDSSnapshot", version, {"snapshotID": "begun"})
    assert (status["state"] == "failed") == bool(left)
    assert len(snapshots(rds)) == left


@pytest.mark.parametrize("version", VERSIONS)
def test_instance_is_restored_from_its_snapshot(rds: Any, location: Location, version: str) -> None:
    make_instance(rds)
    created = output(run(location, "CreateRDSSnapshot", version, {"instanceID": "app"}))
    assert created["allocatedStorage"] == "20GiB"
    assert created["securityGroupID"] == "- sg-1\n- sg-2\n"
    assert snapshots(rds) == [created["snapshotID"]]
    restore = {
        "instanceID": created["instanceID"],
        "snapshotID": created["snapshotID"],
        "securityGroupID": created["securityGroupID"],
    }
    output(run(location, "RestoreRDSSnapshot", version, restore))
    assert instances(rds) == ["app"]
    delete = {"snapshotID": created["snapshotID"]}
    for _ in range(2):
        assert output(run(location, "DeleteRDSSnapshot", version, delete)) == {}
    assert snapshots(rds) == []


@pytest.mark.parametrize(
    ("version", "left"),
    [
        pytest.param("v0.0.0", [], id="v0.0.0 deleted it"),
        pytest.param("v0.1.0", ["app"], id="kept"),
    ],
)
def test_failed_restore_of_an_instance(
    rds: Any, location: Location, version: str, left: list[str]
) -> None:
    make_instance(rds)
    restore = {"instanceID": "app", "snapshotID": "nosuch"}
    status = run(location, "RestoreRDSSnapshot", version, restore)
    assert "There is no snapshot nosuch" in status["error"]["message"]
    assert instances(rds) == left


def test_aurora_cluster_is_restored_with_an_instance(rds: Any, location: Location) -> None:
    rds.create_db_cluster(
        DBClusterIdentifier="aurora",
        Engine="aurora-postgresql",
        MasterUsername="postgres",
        MasterUserPassword="password",
    )
    engine = {"dbEngine": "aurora-postgresql"}
    create = {"instanceID": "aurora", **engine}
    created = output(run(location, "CreateRDSSnapshot", "v0.0.0", create))
    assert cluster_snapshots(rds) == [created["snapshotID"]]
    # Under a new name: moto keeps a snapshot of a deleted cluster, whose name would then conflict.
    restore = {"snapshotID": created["snapshotID"], **engine}
    output(run(location, "RestoreRDSSnapshot", "v0.0.0", {**restore, "instanceID": "copy"}))
    assert clusters(rds) == ["aurora", "copy"]
    assert instances(rds) == ["copy-instance-1"]
    output(run(location, "RestoreRDSSnapshot", "v0.1.0", {**restore, "instanceID": "aurora"}))
    assert clusters(rds) == ["aurora", "copy"]
    assert len(instances(rds)) == 2
    delete = {"snapshotID": created["snapshotID"], **engine}
    output(run(location, "DeleteRDSSnapshot", "v0.0.0", delete))
    assert cluster_snapshots(rds) == []


def test_missing_instance_is_named(rds: Any, location: Location) -> None:
    del rds
    status = run(location, "CreateRDSSnapshot", "v0.0.0", {"instanceID": "nosuch"})
    assert "There is no RDS instance nosuch" in status["error"]["message"]


def test_credential_from_a_secret_of_the_phase(rds: Any, location: Location) -> None:
    make_instance(rds)
    args = {
        "instanceID": "app",
        "credentialsSource": "secret",
        "credentialsSecret": "aws",
        "region": "us-east-1",
    }
    secret = {"kind": "Secret", "name": "aws", "namespace": "default"}
    created = output(run(location, "CreateRDSSnapshot", "v0.0.0", args, {"aws": secret}))
    assert snapshots(rds) == [created["snapshotID"]]


def test_secret_source_requires_a_secret(rds: Any, location: Location) -> None:
    del rds
    args = {"instanceID": "app", "credentialsSource": "secret"}
    status = run(location, "CreateRDSSnapshot", "v0.0.0", args)
    assert "credentialsSecret is required" in status["error"]["message"]


class Shop:
    """A real PostgreSQL that replaces an instance, with a table to dump and restore."""

    # The endpoint of moto does not exist, so the pod gets the address of PostgreSQL.
    override: ClassVar = {
        "containers": [{"name": "container", "env": [{"name": "PGHOSTADDR", "value": "127.0.0.1"}]}]
    }
    common: ClassVar = {
        "namespace": "default",
        "username": "postgres",
        "password": PASSWORD,
        "instanceID": "app",
        "backupArtifactPrefix": "dumps",
    }

    def __init__(self, rds: Any, location: Location, server: Server, version: str) -> None:
        self.version = version
        make_instance(rds, port=server.port)
        created = output(run(location, "CreateRDSSnapshot", version, {"instanceID": "app"}))
        self.snapshot = created["snapshotID"]
        server.ask("DROP DATABASE IF EXISTS shop")
        server.ask("CREATE DATABASE shop")
        self.shop = Server(server.port, [*server.client[:-1], "shop"], server.env)
        self.shop.ask("CREATE TABLE t AS SELECT generate_series(1, 1000) AS n")

    def count(self) -> str:
        return str(self.shop.ask("SELECT count(*) FROM t"))

    def spoil(self) -> None:
        self.shop.ask("DELETE FROM t WHERE n > 10")

    def export(self, location: Location) -> Mapping[str, Any]:
        args = {"snapshotID": self.snapshot, "dbEngine": "PostgreSQL", "databases": "- shop\n"}
        return self._run(location, "ExportRDSSnapshotToLocation", args)

    def restore(self, location: Location, dump: str) -> Mapping[str, Any]:
        return self._run(location, "RestoreRDSSnapshot", {"backupID": dump})

    def _run(self, location: Location, func: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        args = {**self.common, **args}
        status = run(location, func, self.version, args, podOverride=self.override)
        assert PASSWORD not in json.dumps(status)
        return status


@pytest.fixture
def shop(rds: Any, location: Location, postgresql: Server, request: Any) -> Iterator[Shop]:
    if shutil.which("pg_dump") is None:
        pytest.skip("pg_dump is not installed: nothing is dumped")
    yield Shop(rds, location, postgresql, request.param)
    store = object_stores().open(location)
    store.delete(obj.key for obj in store.list(""))


@pytest.mark.parametrize("shop", VERSIONS, indirect=True)
def test_dump_of_a_real_postgresql_is_restored(rds: Any, location: Location, shop: Shop) -> None:
    dump = output(shop.export(location))["backupID"]
    store = object_stores().open(location)
    assert [obj.key for obj in store.list("")] == [f"dumps/{dump}"]
    assert instances(rds) == ["app"]
    shop.spoil()
    assert output(shop.restore(location, dump))["endpoint"].startswith("app.")
    assert "1000" in shop.count()


@pytest.mark.long
@pytest.mark.parametrize("times", [1, ALWAYS], ids=["once", "for good"])
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("shop", VERSIONS, indirect=True)
def test_dump_to_a_faulty_store_is_complete_or_fails(
    rds: Any, location: Location, shop: Shop, fault: Fault, times: int
) -> None:
    store = object_stores().open(location)
    faults = Faults(fault, times=times, pattern="PUT|POST|GET$")
    with faulty(location, faults) as failing:
        exported = shop.export(failing)
    assert faults.injected
    # The temporary instance is deleted in any case.
    assert instances(rds) == ["app"]
    if exported["state"] != "complete":
        is_clear(exported)
        store.delete(obj.key for obj in store.list(""))
        exported = shop.export(location)
    dump = output(exported)["backupID"]
    assert [obj.key for obj in store.list("")] == [f"dumps/{dump}"]
    shop.spoil()
    faults = Faults(fault, times=times, pattern="GET$")
    with faulty(location, faults) as failing:
        restored = shop.restore(failing, dump)
    assert faults.injected
    if restored["state"] != "complete":
        is_clear(restored)
        # An incomplete dump is not loaded.
        assert "10\n" in f"{shop.count().strip()}\n"
        restored = shop.restore(location, dump)
    output(restored)
    assert "1000" in shop.count()


def is_clear(status: Mapping[str, Any]) -> None:
    """Check that an error names the store or the object in one line of kando."""
    message = status["error"]["message"]
    assert "Error: " in message, message
    assert "kbucket" in message or "has checksum" in message, message
