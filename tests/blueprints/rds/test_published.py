"""Published blueprints of RDS run unmodified, with moto's server and a real PostgreSQL.

One of them is among the recorded answers; `KANISTER_PY_PUBLISHED` names the folder of Kanister's
examples, which contains more.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.kube.locations import Location
from kanister_py.core.yaml.documents import parse_document
from kanister_py.runs import RunSettings, run_actionset
from kanister_py.wiring import object_stores
from tests.blueprints.rds.instances import (
    cluster_snapshots,
    clusters,
    encoded,
    instances,
    location,
    make_instance,
    objects,
    snapshots,
)
from tests.blueprints.servers import PASSWORD, Server

# Fixtures are found by name.
__all__ = ["location"]

SNAPSHOT = "aws-rds/postgresql/rds-postgres-snap-blueprint.yaml"
AURORA = "aws-rds/aurora-mysql/rds-aurora-snap-blueprint.yaml"
DUMP = "aws-rds/postgresql/rds-postgres-dump-blueprint.yaml"


def _place_of(name: str) -> Path | None:
    """Return the path of a published blueprint, or None."""
    recorded = os.environ.get("KANISTER_PY_RECORDED", "")
    examples = os.environ.get("KANISTER_PY_PUBLISHED", "")
    places = [Path(recorded).parent / "corpus" / "blueprints" / name] if recorded else []
    places += [Path(examples) / name] if examples else []
    return next((place for place in places if place.exists()), None)


def act(
    blueprint: Mapping[str, Any],
    action: str,
    location: Location,
    data: Mapping[str, str],
    artifacts: Any = None,
    **more: Any,
) -> Any:
    """Run an action for a ConfigMap that describes the database, and return its artifacts."""
    metadata = {"name": "db", "namespace": "default"}
    expected = {
        "name": action,
        "blueprint": blueprint["metadata"]["name"],
        "object": {"apiVersion": "v1", "resource": "configmaps", **metadata},
        "profile": {"name": "s3", "namespace": "default"},
        "artifacts": artifacts or {},
        **more,
    }
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": action, "namespace": "default"},
        "spec": {"actions": [expected]},
    }
    login = encoded(username="postgres", password=PASSWORD)
    commands = [
        *objects(location),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "login", "namespace": "default"},
            "data": login,
        },
    ]
    settings = RunSettings(objects=commands, pods="processes")
    status = run_actionset(actionset, [dict(blueprint)], settings).wait(180).status
    assert status["state"] == "complete", status["error"]
    return status["actions"][0].get("artifacts")


def instance_from_snapshot(rds: Any, location: Location, blueprint: Any) -> None:
    make_instance(rds)
    data = {"postgres.instanceid": "app"}
    artifacts = act(blueprint, "backup", location, data)
    assert len(snapshots(rds)) == 1
    rds.delete_db_instance(DBInstanceIdentifier="app", SkipFinalSnapshot=True)
    act(blueprint, "restore", location, data, artifacts)
    assert instances(rds) == ["app"]
    act(blueprint, "delete", location, data, artifacts)
    assert snapshots(rds) == []
    assert list(object_stores().open(location).list("")) == []


def cluster_from_snapshot(rds: Any, location: Location, blueprint: Any) -> None:
    rds.create_db_cluster(
        DBClusterIdentifier="aurora",
        Engine="aurora-mysql",
        MasterUsername="admin",
        MasterUserPassword="password",
    )
    data = {"aurora.clusterID": "aurora"}
    artifacts = act(blueprint, "backup", location, data)
    assert len(cluster_snapshots(rds)) == 1
    # Under a new name, for the same reason as in the test of the functions.
    artifacts["backupInfo"]["keyValue"]["instanceID"] = "copy"
    act(blueprint, "restore", location, data, artifacts)
    assert clusters(rds) == ["aurora", "copy"]
    act(blueprint, "delete", location, data, artifacts)
    assert cluster_snapshots(rds) == []
    assert list(object_stores().open(location).list("")) == []


def postgresql_from_dump(rds: Any, location: Location, blueprint: Any, postgresql: Server) -> None:
    if shutil.which("pg_dump") is None:
        pytest.skip("pg_dump is not installed: nothing is dumped")
    make_instance(rds, port=postgresql.port)
    postgresql.ask("CREATE TABLE t AS SELECT generate_series(1, 1000) AS n")
    address = [{"name": "PGHOSTADDR", "value": "127.0.0.1"}]
    override = {"podOverride": {"containers": [{"name": "container", "env": address}]}}
    data = {"postgres.instanceid": "app", "postgres.secret": "login", "postgres.databases": "- app"}
    artifacts = act(blueprint, "backup", location, data, **override)
    assert snapshots(rds) == []
    postgresql.ask("DROP TABLE t")
    act(blueprint, "restore", location, data, artifacts, **override)
    assert "1000" in postgresql.ask("SELECT count(*) FROM t")
    about = {"object": {"kind": "Namespace", "name": "default", "namespace": "default"}}
    act(blueprint, "delete", location, data, artifacts, **about)
    assert list(object_stores().open(location).list("")) == []


COURSES = {SNAPSHOT: instance_from_snapshot, AURORA: cluster_from_snapshot, DUMP: None}


@pytest.mark.parametrize("name", [course for course in COURSES if _place_of(course)])
def test_published_blueprint_restores_a_database(
    request: pytest.FixtureRequest, rds: Any, location: Location, name: str
) -> None:
    place = _place_of(name)
    assert place is not None
    blueprint = parse_document(place.read_bytes(), name).value
    course = COURSES[name]
    if course is not None:
        course(rds, location, blueprint)
    else:
        postgresql_from_dump(rds, location, blueprint, request.getfixturevalue("postgresql"))
