"""CSI snapshots: created, registered, restored and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.errors import AlreadyExists, NotFound, RunCancelled
from kanister_py.core.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    VOLUME_SNAPSHOT_CONTENTS,
    VOLUME_SNAPSHOTS,
)
from kanister_py.core.yaml.weak import InvalidArgs
from kanister_py.functions.blueprint.create_csi_snapshot.v0_0_0 import CreateCSISnapshot
from kanister_py.functions.blueprint.create_csi_snapshot_static.v0_0_0 import (
    CreateCSISnapshotStatic,
)
from kanister_py.functions.blueprint.delete_csi_snapshot.v0_0_0 import DeleteCSISnapshot
from kanister_py.functions.blueprint.delete_csi_snapshot_content.v0_0_0 import (
    DeleteCSISnapshotContent,
)
from kanister_py.functions.blueprint.restore_csi_snapshot.v0_0_0 import RestoreCSISnapshot
from kanister_py.ports.cluster import KubeObject
from tests.fake_clock import FakeClock
from tests.functions.blueprint.api_calls import Api
from tests.raising import refused_as

SNAPSHOT_API = "snapshot.storage.k8s.io/v1"
TAKE = {"pvc": "data", "namespace": "default", "snapshotClass": "fast"}
KNOWN = {
    "name": "old",
    "namespace": "default",
    "driver": "csi.test",
    "snapshotHandle": "snap-1",
    "snapshotClass": "fast",
}
RESTORE = {
    "name": "data-1",
    "pvc": "restored",
    "namespace": "default",
    "storageClass": "block",
    "restoreSize": "10Gi",
}


@pytest.fixture
def claim() -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


@pytest.fixture
def api(claim: KubeObject) -> Api:
    api = Api()
    api.cluster.load([claim])
    api.add(SNAPSHOT_API, "VolumeSnapshotClass", "fast", driver="csi.test", deletionPolicy="Retain")
    return api


def taken(api: Api) -> Any:
    return api.cluster.list(VOLUME_SNAPSHOTS, namespace="default").items


def say(api: Api, name: str, **status: Any) -> None:
    """Set the status of a snapshot like the driver."""
    api.cluster.patch(
        VOLUME_SNAPSHOTS, name, {"status": status}, namespace="default", subresource="status"
    )


def finish(api: Api, name: str, **status: Any) -> None:
    say(
        api,
        name,
        readyToUse=True,
        creationTime="2026-01-01T00:00:00Z",
        boundVolumeSnapshotContentName="content-1",
        **status,
    )


# Creation


def test_snapshot_is_ready_when_the_phase_ends(api: Api) -> None:
    args = {**TAKE, "name": "data-1", "labels": {"App.Name": "My DB", "plain": "yes"}}
    with api.waiting(CreateCSISnapshot, args) as called:
        [snapshot] = taken(api)
        assert snapshot["spec"] == {
            "source": {"persistentVolumeClaimName": "data"},
            "volumeSnapshotClassName": "fast",
        }
        labels = snapshot["metadata"]["labels"]
        assert labels.pop("kanister-py.io/run")
        assert labels == {"app_name": "my_db", "plain": "yes"}
        assert "ownerReferences" not in snapshot["metadata"]
        say(api, "data-1", readyToUse=True)
        assert not called.ended, "a snapshot without a time is not ready"
        finish(api, "data-1", restoreSize="2048Mi")
        assert called.result() == {
            "name": "data-1",
            "pvc": "data",
            "namespace": "default",
            "restoreSize": "2Gi",
            "snapshotContent": "content-1",
        }


def test_snapshot_without_size_uses_the_size_of_the_claim(api: Api) -> None:
    with api.waiting(CreateCSISnapshot, {**TAKE, "name": "data-1"}) as called:
        finish(api, "data-1")
        assert called.result()["restoreSize"] == "1Gi"


def test_resumed_phase_uses_its_existing_snapshot(api: Api) -> None:
    with api.waiting(CreateCSISnapshot, TAKE):
        [snapshot] = taken(api)
    name = snapshot["metadata"]["name"]
    assert name.startswith("data-snapshot-")
    assert len(name) == len("data-snapshot-") + 5
    with api.waiting(CreateCSISnapshot, TAKE, is_resumed=True) as called:
        assert len(taken(api)) == 1
        finish(api, name)
        assert called.result()["name"] == name


def test_every_attempt_creates_its_own_snapshot(api: Api) -> None:
    for options in ({"uid": "one"}, {"uid": "two"}, {"uid": "two", "attempt": 2}):
        with api.waiting(CreateCSISnapshot, TAKE, **options):
            pass
    assert len({snapshot["metadata"]["name"] for snapshot in taken(api)}) == 3


def test_existing_snapshot_of_another_run_is_an_error(api: Api) -> None:
    api.add(SNAPSHOT_API, "VolumeSnapshot", "data-1", spec={"source": {}})
    with pytest.raises(AlreadyExists, match="Failed to create snapshot resource"):
        api.call(CreateCSISnapshot, {**TAKE, "name": "data-1"})


def test_missing_claim_fails_the_phase(api: Api) -> None:
    with pytest.raises(NotFound, match="Failed to find PVC none in namespace default"):
        api.call(CreateCSISnapshot, {**TAKE, "pvc": "none"})


def test_driver_error_fails_the_phase(api: Api) -> None:
    with api.waiting(CreateCSISnapshot, {**TAKE, "name": "data-1"}) as called:
        say(api, "data-1", error={"message": "the array is full"})
        with refused_as("SnapshotFailed", match="the array is full"):
            called.result()


def test_transient_driver_error_is_ignored(api: Api) -> None:
    with api.waiting(CreateCSISnapshot, {**TAKE, "name": "data-1"}) as called:
        say(api, "data-1", error={"message": "sync: VolumeSnapshotContent is missing"})
        finish(api, "data-1", error=None)
        assert called.result()["name"] == "data-1"


def test_persistent_transient_error_fails_the_phase(claim: KubeObject) -> None:
    api = Api(clock=FakeClock(jumps=True))
    api.cluster.load([claim])
    with api.cluster.watch(VOLUME_SNAPSHOTS) as snapshots:
        called = api.start(CreateCSISnapshot, {**TAKE, "name": "data-1"})
        next(iter(snapshots))
    say(api, "data-1", error={"message": "SnapshotFinalizerError: again"})
    with refused_as("SnapshotFailed", match="SnapshotFinalizerError: again"):
        called.result()


def test_waiting_for_a_snapshot_can_be_cancelled(api: Api) -> None:
    with api.waiting(CreateCSISnapshot, TAKE) as called:
        called.cancel()
        with pytest.raises(RunCancelled):
            called.result()


# Registration


def test_static_snapshot_has_content_and_snapshot(api: Api) -> None:
    with api.waiting(CreateCSISnapshotStatic, KNOWN) as called:
        [content] = api.cluster.list(VOLUME_SNAPSHOT_CONTENTS).items
        name = content["metadata"]["name"]
        assert name.startswith("old-content-")
        assert content["spec"] == {
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "name": "old", "namespace": "default"},
            "deletionPolicy": "Retain",
            "driver": "csi.test",
            "source": {"snapshotHandle": "snap-1"},
            "volumeSnapshotClassName": "fast",
        }
        [snapshot] = taken(api)
        assert snapshot["spec"]["source"] == {"volumeSnapshotContentName": name}
        finish(api, "old", restoreSize="1Gi")
        assert called.result() == {
            "name": "old",
            "namespace": "default",
            "restoreSize": "1Gi",
            "snapshotContent": "content-1",
        }


def test_resumed_static_snapshot_uses_existing_objects(api: Api) -> None:
    for _ in range(2):
        with api.waiting(CreateCSISnapshotStatic, KNOWN, is_resumed=True):
            assert len(api.cluster.list(VOLUME_SNAPSHOT_CONTENTS)) == len(taken(api)) == 1


def test_missing_class_fails_a_static_snapshot(api: Api) -> None:
    with pytest.raises(NotFound, match="Failed to get DeletionPolicy from VolumeSnapshotClass"):
        api.call(CreateCSISnapshotStatic, {**KNOWN, "snapshotClass": "none"})
    assert not api.cluster.list(VOLUME_SNAPSHOT_CONTENTS).items


# Restore


def test_claim_is_restored_from_a_snapshot(api: Api) -> None:
    args = {
        **RESTORE,
        "accessModes": ["ReadOnlyMany"],
        "volumeMode": "Block",
        "labels": {"app": "db"},
    }
    assert api.call(RestoreCSISnapshot, args) is None
    claim = api.cluster.get(PERSISTENT_VOLUME_CLAIMS, "restored", namespace="default")
    assert claim["metadata"]["labels"].items() >= {"app": "db"}.items()
    assert claim["spec"]["accessModes"] == ["ReadOnlyMany"]
    assert claim["spec"]["volumeMode"] == "Block"
    assert claim["spec"]["storageClassName"] == "block"
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    assert claim["spec"]["dataSource"] == {
        "apiGroup": "snapshot.storage.k8s.io",
        "kind": "VolumeSnapshot",
        "name": "data-1",
    }


def test_existing_claim_fails_unless_this_phase_created_it(api: Api) -> None:
    api.call(RestoreCSISnapshot, RESTORE)
    api.call(RestoreCSISnapshot, RESTORE, is_resumed=True)
    with pytest.raises(AlreadyExists, match='persistentvolumeclaims "restored" already exists'):
        api.call(RestoreCSISnapshot, RESTORE, uid="another-run")


@pytest.mark.parametrize(
    ("args", "refusal"),
    [
        pytest.param(
            {"accessModes": ["ReadWriteOncePod"]},
            "given accessMode ReadWriteOncePod is invalid",
            id="one pod alone",
        ),
        pytest.param({"volumeMode": "File"}, "given volumeMode File is invalid", id="a mode"),
        pytest.param({"restoreSize": "0"}, "restoreSize argument cannot be zero", id="no size"),
        pytest.param({"restoreSize": "<nil>"}, "'<nil>' is not a quantity", id="no quantity"),
    ],
)
def test_invalid_restore_arguments_are_rejected(
    api: Api, args: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(InvalidArgs) as caught:
        api.call(RestoreCSISnapshot, {**RESTORE, **args})
    assert refusal in caught.value.message


# Deletion


def test_delete_waits_until_the_snapshot_is_gone(api: Api) -> None:
    api.add(SNAPSHOT_API, "VolumeSnapshot", "data-1", metadata={"finalizers": ["test/hold"]})
    args = {"name": "data-1", "namespace": "default"}
    with api.waiting(DeleteCSISnapshot, args) as called:
        [snapshot] = taken(api)
        assert snapshot["metadata"]["deletionTimestamp"]
        release = {"metadata": {"finalizers": None}}
        api.cluster.patch(VOLUME_SNAPSHOTS, "data-1", release, namespace="default")
        assert called.result() is None
    assert api.call(DeleteCSISnapshot, args) is None, "what is not there is fine"


def test_delete_of_content_does_not_wait(api: Api) -> None:
    api.add(SNAPSHOT_API, "VolumeSnapshotContent", "c", metadata={"finalizers": ["test/hold"]})
    assert api.call(DeleteCSISnapshotContent, {"name": "c"}) is None
    [content] = api.cluster.list(VOLUME_SNAPSHOT_CONTENTS).items
    assert content["metadata"]["deletionTimestamp"]
    assert api.call(DeleteCSISnapshotContent, {"name": "none"}) is None
