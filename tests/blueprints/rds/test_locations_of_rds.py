"""Folders that replace object stores also apply to functions of RDS; AWS is still called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.blueprints.recorded_stores import S3, Listener, amazon, run, store

# Fixtures are found by name.
__all__ = ["amazon", "store"]

RDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "CreateRDSSnapshot": {"instanceID": "i"},
    "DeleteRDSSnapshot": {"snapshotID": "s"},
    "ExportRDSSnapshotToLocation": {
        "namespace": "default",
        "instanceID": "i",
        "securityGroupID": ["g"],
        "username": "u",
        "password": "p",
        "dbEngine": "PostgreSQL",
        "databases": ["d"],
        "snapshotID": "s",
        "backupArtifactPrefix": "p",
    },
    "RestoreRDSSnapshot": {"instanceID": "i", "snapshotID": "s", "securityGroupID": ["g"]},
}


@pytest.mark.parametrize("version", ["v0.0.0", "v0.1.0"])
@pytest.mark.parametrize("func", RDS)
def test_functions_of_rds_call_only_aws(
    tmp_path: Path,
    store: Listener,
    amazon: Listener,
    func: str,
    version: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", amazon.url)
    location = {**S3, "endpoint": store.url, "region": "eu-west-1"}
    status = run(tmp_path, func, RDS[func], version, location)
    assert status["state"] == "failed"
    assert amazon.asked, status["error"]["message"]
    assert store.asked == []
