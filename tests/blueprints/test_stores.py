"""Files of a volume are backed up to a real object store and restored: with kando and restic."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.core.yaml.documents import dump_yaml, parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.pod_host import PodHost
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.ports.cluster import Cluster
from kanister_py.runs import RunSettings, run_blueprint
from kanister_py.wiring import object_stores
from tests.blueprints.volume_files import FILL, IN_VOLUME, LOOK
from tests.stores import running_store

pytestmark = pytest.mark.usefixtures("mounts")

PROFILE = {"name": "backups", "namespace": "shop"}
CLAIM = "PersistentVolumeClaim/shop/pictures"


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    with running_store(StoreKind.S3, tmp_path / "s3") as location:
        yield location


@pytest.fixture
def cluster(tmp_path: Path, location: Location, blueprints: Path) -> Iterator[Cluster]:
    """A cluster with the objects of the blueprint, and its Profile filled in."""
    cluster = MemoryCluster(clock=SystemClock())
    pods = PodHost(cluster, ProcessPodRunner(SystemClock(), state=tmp_path), SystemClock())
    cluster.attach_pods(pods.node)
    pods.start()
    for document in parse_documents((blueprints / "pvc-restic/objects.yaml").read_bytes()):
        manifest = document.value
        if manifest["kind"] == "Profile":
            manifest["location"] |= {
                "bucket": location.bucket,
                "endpoint": location.endpoint,
                "region": location.region,
            }
        elif manifest["metadata"]["name"] == "backups":
            credential = location.credential
            manifest["stringData"] = {"id": credential.id, "secret": credential.secret}
        cluster.create(manifest)
    yield cluster
    pods.close()


def run(cluster: Cluster, blueprint: Any, action: str, **more: Any) -> Mapping[str, Any]:
    ran = run_blueprint(blueprint, action, settings=RunSettings(cluster=cluster), **more)
    status = ran.wait(180).status
    assert status["state"] == "complete", status["error"]
    action_status: Mapping[str, Any] = status["actions"][0]
    return action_status


@pytest.mark.parametrize(
    ("name", "left"),
    [
        pytest.param("pvc-restic", "restic/shop/snapshots/", id="by restic"),
        pytest.param("pvc-files", "", id="through kando"),
    ],
)
def test_restore_has_all_files(
    cluster: Cluster, location: Location, blueprints: Path, tmp_path: Path, name: str, left: str
) -> None:
    helper = tmp_path / "in-volume.yaml"

    helper.write_text(dump_yaml(IN_VOLUME))

    def look(script: str) -> Any:
        more = {"object": CLAIM, "options": {"script": script}}
        return run(cluster, helper, "do", **more)["phases"][0].get("output")

    file = blueprints / name / "blueprint.yaml"
    keep = 'kando output seen "$( { ' + LOOK.strip() + '; } | cksum)"'
    look(FILL)
    before = look(keep)
    profile = {"object": CLAIM, "profile": PROFILE}
    backup = run(cluster, file, "backup", **profile)
    artifacts, progress = backup["artifacts"], backup["phases"][0]["progress"]
    if name == "pvc-restic":
        assert progress["sizeUploadedB"] == progress["estimatedUploadSizeB"] > 0
        assert progress["filesUploaded"] == progress["estimatedFiles"] > 0
    assert list(object_stores().open(location).list("")) != []
    look("rm -rf ./* ./.hidden")
    assert look(keep) != before
    run(cluster, file, "restore", artifacts=artifacts, **profile)
    assert look(keep) == before
    run(
        cluster,
        file,
        "delete",
        object="Namespace/shop",
        profile=PROFILE,
        artifacts=artifacts,
    )
    store = object_stores().open(location)
    assert [obj.key for obj in store.list(left)] == []
