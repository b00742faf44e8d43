"""Data functions v0.0.0 on a real S3 server, with real restic in real pods."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.functions.blueprint.backup_data.v0_0_0 import BackupData
from kanister_py.functions.blueprint.copy_volume_data.v0_0_0 import CopyVolumeData
from kanister_py.functions.blueprint.delete_data.v0_0_0 import DeleteData
from kanister_py.functions.blueprint.location_delete.v0_0_0 import LocationDelete
from kanister_py.functions.blueprint.restore_data.v0_0_0 import RestoreData
from kanister_py.wiring import object_stores
from tests.functions.blueprint.conftest import Harness, failure
from tests.functions.blueprint.data import claim, facts_for, in_pod, keys, mounted
from tests.stores import running_store

KEY = "a-key-nobody-sees"


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    with running_store(StoreKind.S3, tmp_path_factory.mktemp("s3")) as location:
        yield location


@pytest.fixture
def facts(location: Location) -> ActionFacts:
    return facts_for(location)


def test_volume_is_restored(harness: Harness, facts: ActionFacts, location: Location) -> None:
    claim(harness, "data")
    mounted(harness, "mkdir /v/sub; echo one >/v/a; echo two >/v/sub/b")
    common = {"namespace": "default", "encryptionKey": KEY}
    done = harness.call(
        CopyVolumeData,
        {**common, "volume": "data", "dataArtifactPrefix": "volumes/data"},
        facts=facts,
        uid="backup",
    )
    assert (done["backupRoot"], done["fileCount"]) == ("/mnt/vol_data/data", "2")
    assert done["backupArtifactLocation"] == "kbucket/volumes/data"
    mounted(harness, "rm -r /v/a /v/sub; echo new >/v/c")
    restore = {
        **common,
        "image": "tools",
        "backupArtifactPrefix": done["backupArtifactLocation"],
        "backupTag": done["backupTag"],
        "volumes": {"data": done["backupRoot"]},
    }
    assert harness.call(RestoreData, restore, facts=facts, uid="restore") == {}
    assert mounted(harness, "cd /v; cat a sub/b c") == b"one\ntwo\nnew\n"
    delete = {
        **common,
        "backupArtifactPrefix": done["backupArtifactLocation"],
        "backupID": done["backupID"],
        "reclaimSpace": True,
    }
    assert harness.call(DeleteData, delete, facts=facts, uid="delete") == {"spaceFreed": "0 B"}
    assert keys(location, "volumes/data/snapshots/") == []
    assert harness.call(LocationDelete, {"artifact": "kbucket/volumes"}, facts=facts) is None
    assert keys(location, "") == []
    assert [pod["metadata"]["name"] for pod in harness.pods()] == ["user"]


def test_part_of_a_backup_is_restored(harness: Harness, facts: ActionFacts) -> None:
    harness.pod_to_go_into("app", "main")
    in_pod(harness, "app", "mkdir -p /tmp/x/keep /tmp/x/other; echo 1 >/tmp/x/keep/a")
    common = {
        "namespace": "default",
        "encryptionKey": KEY,
        "backupArtifactPrefix": "part",
    }
    args = {**common, "pod": "app", "container": "main", "includePath": "/tmp/x"}
    done = harness.call(BackupData, args, facts=facts)
    assert done["fileCount"] == "1"
    assert harness.log[-1].endswith("saved")
    # Restic 0.14 does not support folders of a snapshot, and reports that itself.
    claim(harness, "data")
    restore = {
        **common,
        "image": "tools",
        "backupIdentifier": done["backupID"],
        "backupPath": "/tmp/x/keep",
        "restorePath": "/v",
        "volumes": {"data": "/v"},
    }
    error = failure(lambda: harness.call(RestoreData, restore, facts=facts, uid="restore"))
    assert error.message.startswith("Failed to restore backup: Failed to exec command in pod")
    assert f"{done['backupID']}:/tmp/x/keep" in error.message
    harness.call(LocationDelete, {"artifact": "part"}, facts=facts)


def test_missing_profile_fails_the_phase(harness: Harness) -> None:
    error = failure(lambda: harness.call(LocationDelete, {"artifact": "x"}))
    assert error.message == "Failed to validate Profile: Profile must be non-nil"


def test_kopia_profile_is_rejected_with_an_alternative(
    harness: Harness, location: Location
) -> None:
    kopia = location._replace(kind=StoreKind.KOPIA)
    error = failure(lambda: harness.call(LocationDelete, {"artifact": "x"}, facts=facts_for(kopia)))
    assert "use a Profile of type s3Compliant, gcs or azure" in error.message
    assert harness.pods() == []


def test_missing_bucket_is_reported_once(harness: Harness, location: Location) -> None:
    nowhere = facts_for(location._replace(bucket="nosuchbucket"))
    error = failure(lambda: harness.call(LocationDelete, {"artifact": "x"}, facts=nowhere))
    assert error.reason == "BucketNotFound"


def test_location_delete_uses_the_prefix_of_the_profile(
    harness: Harness, location: Location
) -> None:
    store = object_stores().open(location)
    for key in ("team/x/1", "team/xy", "x/1"):
        store.put(key, [b"1"])
    args = {"artifact": "kbucket/x"}
    harness.call(LocationDelete, args, facts=facts_for(location._replace(prefix="team")))
    assert keys(location, "") == ["x/1"]
    harness.call(LocationDelete, {"artifact": "x"}, facts=facts_for(location))


def test_restore_outside_of_volumes_writes_nothing(
    harness: Harness, facts: ActionFacts, tmp_path: Path
) -> None:
    claim(harness, "data")
    mounted(harness, "echo one >/v/a")
    folder = tmp_path / "machine"
    folder.mkdir()
    before = folder.stat()
    common = {"namespace": "default", "encryptionKey": KEY}
    volume = {"volume": "data", "mountPath": str(folder), "dataArtifactPrefix": "here"}
    done = harness.call(CopyVolumeData, {**common, **volume}, facts=facts, uid="backup")
    restore = {
        **common,
        "image": "tools",
        "backupArtifactPrefix": done["backupArtifactLocation"],
        "backupTag": done["backupTag"],
        "volumes": {"data": "/elsewhere"},
    }
    error = failure(lambda: harness.call(RestoreData, restore, facts=facts, uid="restore"))
    assert "read-only file system" in error.message
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mtime_ns == before.st_mtime_ns
    # With the volume mounted at its original path, it is restored; parent folders are unchanged.
    restore_elsewhere = {**restore, "volumes": {"data": str(folder)}}
    mounted(harness, "rm /v/a")
    harness.call(RestoreData, restore_elsewhere, facts=facts, uid="there")
    assert mounted(harness, "cat /v/a") == b"one\n"
    assert list(folder.iterdir()) == []
