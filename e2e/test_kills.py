"""A controller killed at every step of a backup and a restore leaves one complete snapshot.

The controller is a process; restic, its pods and the S3 server are real. After each kill
the next controller finishes the run. `tests/blueprints/test_kills.py` kills other processes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.cluster.client import ApiClient
from e2e.controllers import Place, install_definitions, until
from e2e.data_objects import in_app, objects
from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice
from kanister_py.core.kube.locations import Location
from kanister_py.core.kube.resources import PODS
from kanister_py.core.yaml.documents import parse_document
from kanister_py.functions.blueprint.keyed_repository import HELPER_PREFIX
from kanister_py.ports.cluster import Cluster
from kanister_py.wiring import object_stores
from tests.blueprints.restic_repository import KEY, restic
from tests.stores import running_s3

pytestmark = pytest.mark.usefixtures("node")

MEBIBYTES = 24
BLUEPRINT = Path(__file__).parents[1] / "blueprints" / "pvc-restic" / "blueprint.yaml"


class BackupNamespace(NamedTuple):
    """A namespace with a volume in use, and the folder of its backups."""

    place: Place
    cluster: Cluster
    location: Location
    bucket: Path

    @property
    def namespace(self) -> str:
        return self.place.namespace

    def keys(self, prefix: str) -> int:
        store = object_stores().open(self.location)
        return sum(1 for _ in store.list(f"restic/{self.namespace}/{prefix}"))

    def helpers(self) -> list[str]:
        names = [e["metadata"]["name"] for e in self.cluster.list(PODS, namespace=self.namespace)]
        return [name for name in names if name.startswith(HELPER_PREFIX)]

    def inside(self, script: str) -> str:
        return in_app(self.cluster, self.namespace, f"cd /v; {script}").decode().strip()

    def restored_bytes(self) -> int:
        return int(self.inside("stat -c %s large"))

    def begin(self, name: str, action: str, artifacts: Mapping[str, Any] | None = None) -> None:
        expected = {
            "name": action,
            "blueprint": "pvc-restic",
            "object": {"kind": "PVC", "name": "data", "namespace": self.namespace},
            "profile": {"name": "s3", "namespace": self.namespace},
            "artifacts": dict(artifacts or {}),
        }
        self.place.create(
            "actionsets",
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "ActionSet",
                "metadata": {"name": name},
                "spec": {"actions": [expected]},
            },
        )

    def check(self) -> None:
        """Check that there is exactly one complete snapshot, and nothing else of the run."""
        assert self.helpers() == []
        assert self.keys("locks/") == 0
        assert self.keys("snapshots/") == 1
        restic(self.location, "check", "--read-data", namespace=self.namespace)


@pytest.fixture
def setting(
    admin: ApiClient, kubeconfig: Path, namespace: str, tmp_path: Path
) -> Iterator[BackupNamespace]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    install_definitions(admin)
    place = Place(admin, kubeconfig, namespace, tmp_path)
    choice = ClusterChoice(kubeconfig=str(kubeconfig), namespace=namespace)
    with running_s3(tmp_path / "s3") as location, KubeCluster(choice) as cluster:
        for manifest in objects(location, namespace):
            cluster.create(manifest)
        key = {"name": "restic", "namespace": namespace}
        cluster.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": key, "stringData": {"key": KEY}}
        )
        place.create("blueprints", parse_document(BLUEPRINT.read_bytes()).value)
        until(lambda: cluster.get(PODS, "app", namespace=namespace)["status"]["phase"] == "Running")
        setup = BackupNamespace(
            place, cluster, location, tmp_path / "s3" / "buckets" / location.bucket
        )
        setup.inside(f"head -c {MEBIBYTES}M /dev/urandom >large")
        try:
            yield setup
        finally:
            place.close()


Moment = Callable[[BackupNamespace], object]
OF_BACKUP: Mapping[str, Moment] = {
    "it was taken": lambda _: True,
    "the pod is there": lambda setting: setting.helpers(),
    "the repository is there": lambda setting: setting.keys("config"),
    "it is locked": lambda setting: setting.keys("locks/"),
    "some data is there": lambda setting: setting.keys("data/") >= 2,
    "the snapshot is there": lambda setting: setting.keys("snapshots/"),
}
OF_RESTORE: Mapping[str, Moment] = {
    "it was taken": lambda _: True,
    "the pod is there": lambda setting: setting.helpers(),
    "it is locked": lambda setting: setting.keys("locks/"),
    "some is written": lambda setting: setting.restored_bytes(),
    "all is written": lambda setting: setting.restored_bytes() >= MEBIBYTES << 20,
}


def test_backup_and_restore_are_complete_whenever_the_controller_is_killed(
    setting: BackupNamespace,
) -> None:
    place = setting.place
    before = setting.inside("cksum <large")
    controller = place.start()
    at_work: list[str] = []

    def killed(name: str, moment: Moment) -> dict[str, Any]:
        """Kill the controller once during a run, and return how the next one ended the run."""
        nonlocal controller
        place.until_running(name)
        until(lambda: moment(setting) or place.status(name)["state"] == "complete")
        controller.kill()
        controller.wait()
        if place.status(name)["state"] == "running":
            at_work.append(name)
        controller = place.start()
        status = place.until_ended(name)
        assert status["state"] == "complete", (name, status, place.logs())
        until(lambda: place.is_let_go(name))
        return status

    status: dict[str, Any] = {}
    for number, moment in enumerate(OF_BACKUP.values()):
        shutil.rmtree(setting.bucket / "restic", ignore_errors=True)
        setting.begin(f"backup-{number}", "backup")
        status = killed(f"backup-{number}", moment)
        setting.check()
    artifacts = status["actions"][0]["artifacts"]
    assert artifacts["files"]["keyValue"]["size"] == f"{MEBIBYTES}.000 MiB"
    for number, moment in enumerate(OF_RESTORE.values()):
        setting.inside(": >large")
        setting.begin(f"restore-{number}", "restore", artifacts)
        killed(f"restore-{number}", moment)
        assert setting.inside("cksum <large") == before
        assert setting.helpers() == []
        assert setting.keys("locks/") == 0
    setting.check()
    # A kill after the end of the run proves nothing, and the last step of each run is short.
    assert len(at_work) >= len(OF_BACKUP) + len(OF_RESTORE) - 2
