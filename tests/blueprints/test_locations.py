"""A folder that replaces object stores does so for every function of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.blueprints.recorded_stores import S3, Listener, run, store

__all__ = ["store"]

REPOSITORY: Final = {"backupArtifactPrefix": "repo", "encryptionKey": "k"}
IN_POD: Final = {**REPOSITORY, "namespace": "default", "pod": "p", "includePath": "/d"}
WITH_VOLUME: Final = {**REPOSITORY, "namespace": "default", "volumes": {"data": "/d"}}
RESTIC: Final[Mapping[str, Mapping[str, Any]]] = {
    "BackupData": IN_POD,
    "DeleteData": {**REPOSITORY, "namespace": "default", "backupID": "a1b2c3d4"},
    "RestoreData": {**WITH_VOLUME, "image": "x", "backupIdentifier": "a1b2c3d4"},
}


@pytest.mark.parametrize("version", ["v0.0.0", "v0.1.0"])
def test_deletion_in_a_folder_sends_no_request(
    tmp_path: Path, store: Listener, version: str
) -> None:
    bucket = tmp_path / "s3Compliant" / "b"
    bucket.mkdir(parents=True)
    for name in ("one", "other"):
        (bucket / name).write_text("x")
    location = {**S3, "endpoint": store.url}
    status = run(tmp_path, "LocationDelete", {"artifact": "b/one"}, version, location)
    assert status["state"] == "complete", status["error"]
    assert [path.name for path in bucket.iterdir()] == ["other"]
    assert store.asked == []


@pytest.mark.parametrize("version", ["v0.0.0", "v0.1.0"])
@pytest.mark.parametrize("func", RESTIC)
def test_restic_is_rejected_before_the_run_without_a_request(
    tmp_path: Path, store: Listener, func: str, version: str
) -> None:
    status = run(tmp_path, func, RESTIC[func], version, {**S3, "endpoint": store.url})
    refused_before_it_began(status)
    assert store.asked == []


@pytest.mark.parametrize("version", ["v0.0.0", "v0.1.0"])
@pytest.mark.parametrize("func", RESTIC)
def test_restic_with_a_profile_of_a_folder_is_refused_before_the_first_phase(
    tmp_path: Path, func: str, version: str
) -> None:
    location = {"type": "file", "bucket": "b", "endpoint": str(tmp_path)}
    refused_before_it_began(run(None, func, RESTIC[func], version, location))


def refused_before_it_began(status: Mapping[str, Any]) -> None:
    assert status["state"] == "failed"
    assert "not replaced by a folder" in status["error"]["message"]
    assert [phase["state"] for phase in status["actions"][0]["phases"]] == ["pending", "failed"]
