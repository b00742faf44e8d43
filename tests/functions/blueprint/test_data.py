"""Data functions v0.0.0 on a real S3 server, with real restic in real pods."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kanister_py.core.objects.locations import Location, StoreKind
from kanister_py.core.templates.facts import ActionFacts, KeyPair, ResolvedProfile
from kanister_py.functions.blueprint.backup_data.v0_0_0 import BackupData
from kanister_py.functions.blueprint.copy_volume_data.v0_0_0 import CopyVolumeData
from kanister_py.functions.blueprint.delete_data.v0_0_0 import DeleteData
from kanister_py.functions.blueprint.location_delete.v0_0_0 import LocationDelete
from kanister_py.functions.blueprint.restore_data.v0_0_0 import RestoreData
from kanister_py.wiring import object_stores
from tests.functions.blueprint.conftest import World, failure
from tests.stores import running_store

KEY = "a-key-nobody-sees"


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    with running_store(StoreKind.S3, tmp_path_factory.mktemp("s3")) as location:
        yield location


def facts_for(location: Location, **more: Any) -> ActionFacts:
    place = {
        "type": str(location.kind),
        "bucket": location.bucket,
        "endpoint": location.endpoint,
        "region": location.region,
        "prefix": location.prefix,
    }
    pair = KeyPair(location.credential.id, location.credential.secret)
    profile = ResolvedProfile(place, "keyPair", key_pair=pair)
    return ActionFacts(time="2026-01-01T00:00:00Z", profile=profile, **more)


@pytest.fixture
def facts(location: Location) -> ActionFacts:
    return facts_for(location)


def keys(location: Location, prefix: str) -> list[str]:
    return [each.key for each in object_stores().open(location).list(prefix)]


def claim(world: World, name: str) -> None:
    world.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Mi"}},
            },
        }
    )


def in_pod(world: World, pod: str, script: str) -> bytes:
    with world.cluster.exec(pod, ["sh", "-c", script], namespace="default") as session:
        said = b"".join(chunk.data for chunk in session)
        assert session.exit_code == 0, said
    return said


def mounted(world: World, script: str) -> bytes:
    """Run something in a pod that has the volume."""
    if "user" not in {each["metadata"]["name"] for each in world.pods()}:
        world.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "user", "namespace": "default"},
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "image": "busybox",
                            "command": ["sleep", "600"],
                            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                        }
                    ],
                    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
                },
            }
        )
        world.seen_pod(
            lambda pod: (
                pod["metadata"]["name"] == "user"
                and (pod.get("status") or {}).get("phase") == "Running"
            )
        )
    return in_pod(world, "user", script)


def test_a_volume_comes_back_as_it_was(
    world: World, facts: ActionFacts, location: Location
) -> None:
    claim(world, "data")
    mounted(world, "mkdir /v/sub; echo one >/v/a; echo two >/v/sub/b")
    common = {"namespace": "default", "encryptionKey": KEY}
    done = world.call(
        CopyVolumeData,
        {**common, "volume": "data", "dataArtifactPrefix": "volumes/data"},
        facts=facts,
        uid="backup",
    )
    assert (done["backupRoot"], done["fileCount"]) == ("/mnt/vol_data/data", "2")
    assert done["backupArtifactLocation"] == "kbucket/volumes/data"
    mounted(world, "rm -r /v/a /v/sub; echo new >/v/c")
    restore = {
        **common,
        "image": "tools",
        "backupArtifactPrefix": done["backupArtifactLocation"],
        "backupTag": done["backupTag"],
        "volumes": {"data": done["backupRoot"]},
    }
    assert world.call(RestoreData, restore, facts=facts, uid="restore") == {}
    assert mounted(world, "cd /v; cat a sub/b c") == b"one\ntwo\nnew\n"
    delete = {
        **common,
        "backupArtifactPrefix": done["backupArtifactLocation"],
        "backupID": done["backupID"],
        "reclaimSpace": True,
    }
    assert world.call(DeleteData, delete, facts=facts, uid="delete") == {"spaceFreed": "0 B"}
    assert keys(location, "volumes/data/snapshots/") == []
    assert world.call(LocationDelete, {"artifact": "kbucket/volumes"}, facts=facts) is None
    assert keys(location, "") == []
    assert [each["metadata"]["name"] for each in world.pods()] == ["user"]


def test_part_of_a_backup_can_be_restored(world: World, facts: ActionFacts) -> None:
    world.pod_to_go_into("app", "main")
    in_pod(world, "app", "mkdir -p /tmp/x/keep /tmp/x/other; echo 1 >/tmp/x/keep/a")
    common = {
        "namespace": "default",
        "encryptionKey": KEY,
        "backupArtifactPrefix": "part",
    }
    args = {**common, "pod": "app", "container": "main", "includePath": "/tmp/x"}
    done = world.call(BackupData, args, facts=facts)
    assert done["fileCount"] == "1"
    assert world.log[-1].endswith("saved")
    # Restic 0.14 knows no folder of a snapshot: it says so itself.
    claim(world, "data")
    restore = {
        **common,
        "image": "tools",
        "backupIdentifier": done["backupID"],
        "backupPath": "/tmp/x/keep",
        "restorePath": "/v",
        "volumes": {"data": "/v"},
    }
    error = failure(lambda: world.call(RestoreData, restore, facts=facts, uid="restore"))
    assert error.message.startswith("Failed to restore backup: Failed to exec command in pod")
    assert f"{done['backupID']}:/tmp/x/keep" in error.message
    world.call(LocationDelete, {"artifact": "part"}, facts=facts)


def test_an_action_without_a_profile_moves_nothing(world: World) -> None:
    error = failure(lambda: world.call(LocationDelete, {"artifact": "x"}))
    assert error.message == "Failed to validate Profile: Profile must be non-nil"


def test_a_kopia_profile_is_refused_with_a_way_out(world: World, location: Location) -> None:
    kopia = replace(location, kind=StoreKind.KOPIA)
    error = failure(lambda: world.call(LocationDelete, {"artifact": "x"}, facts=facts_for(kopia)))
    assert "use a Profile of type s3Compliant, gcs or azure" in error.message
    assert world.pods() == []


def test_a_bucket_that_is_not_there_is_told_once(world: World, location: Location) -> None:
    nowhere = facts_for(replace(location, bucket="nosuchbucket"))
    error = failure(lambda: world.call(LocationDelete, {"artifact": "x"}, facts=nowhere))
    assert error.reason == "BucketNotFound"


def test_a_prefix_of_the_profile_counts_where_objects_are_deleted(
    world: World, location: Location
) -> None:
    store = object_stores().open(location)
    for key in ("team/x/1", "team/xy", "x/1"):
        store.put(key, [b"1"])
    args = {"artifact": "kbucket/x"}
    world.call(LocationDelete, args, facts=facts_for(replace(location, prefix="team")))
    assert keys(location, "") == ["x/1"]
    world.call(LocationDelete, {"artifact": "x"}, facts=facts_for(location))
