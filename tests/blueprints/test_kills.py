"""Runs end in a consistent state when restic, the pod or the store is killed during a transfer.

Two of them are killed once here. `KANISTER_PY_KILLS` kills all of them at every step, which takes
minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.locations import Location
from kanister_py.core.kube.resources import PODS
from kanister_py.core.yaml.documents import parse_document, parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.pod_host import PodHost
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.functions.blueprint.keyed_repository import HELPER_PREFIX
from kanister_py.runs import RunSettings, run_blueprint
from kanister_py.wiring import object_stores
from tests.blueprints.restic_repository import restic
from tests.blueprints.volume_files import IN_VOLUME
from tests.stores import running_s3

pytestmark = [pytest.mark.usefixtures("mounts"), pytest.mark.long]

CLAIM = "PersistentVolumeClaim/shop/pictures"
PROFILE = {"name": "backups", "namespace": "shop"}
MEBIBYTES = 60
PATIENCE_SECONDS = 300
PASSING = ["CommandFailed", "StreamLost", "NotFound", "PodGone"]
"""Reason of a phase whose restic or pod was killed."""


class KillableCluster(NamedTuple):
    """Cluster whose pods are processes, and a store that can be killed."""

    cluster: MemoryCluster
    location: Location
    state: Path
    folder: Path
    servers: ExitStack

    def keys(self, prefix: str) -> int:
        with suppress(Exception):
            store = object_stores().open(self.location)
            return sum(1 for _ in store.list(f"restic/shop/{prefix}"))
        return 0

    def helpers(self) -> list[str]:
        listed = self.cluster.list(PODS).items
        names = [pod["metadata"]["name"] for pod in listed]
        return [name for name in names if name.startswith(HELPER_PREFIX)]

    def restored_bytes(self) -> int:
        files = list((self.state / "volumes").rglob("large"))
        return files[0].stat().st_size if files else 0


@pytest.fixture
def cluster(tmp_path: Path, blueprints: Path) -> Iterator[KillableCluster]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    cluster = MemoryCluster(clock=SystemClock())
    state, folder = tmp_path / "state", tmp_path / "s3"
    pods = PodHost(cluster, ProcessPodRunner(SystemClock(), state=state), SystemClock())
    cluster.attach_pods(pods.node)
    pods.start()
    with ExitStack() as servers:
        location = servers.enter_context(running_s3(folder))
        for document in parse_documents((blueprints / "pvc-restic/objects.yaml").read_bytes()):
            manifest = document.value
            if manifest["kind"] == "Profile":
                place = {"bucket": location.bucket, "endpoint": location.endpoint}
                manifest["location"] |= {**place, "region": location.region}
            elif manifest["metadata"]["name"] == "backups":
                credential = location.credential
                manifest["stringData"] = {"id": credential.id, "secret": credential.secret}
            cluster.create(manifest)
        yield KillableCluster(cluster, location, state, folder, servers)
    pods.close()


def processes(is_meant: Callable[[Path], bool]) -> list[int]:
    result = []
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            if path.name.isdigit() and is_meant(path):
                result.append(int(path.name))
    return result


def kill_restic(cluster: KillableCluster) -> None:
    repository = f"{cluster.location.endpoint}/{cluster.location.bucket}/restic/shop".encode()
    for pid in processes(
        lambda place: (
            (place / "comm").read_text().strip() == "restic"
            and repository in (place / "environ").read_bytes()
        )
    ):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_pod(cluster: KillableCluster) -> None:
    for name in cluster.helpers():
        with suppress(NotFound):
            cluster.cluster.delete(PODS, name, namespace="shop", grace_period_seconds=0)


def kill_store(cluster: KillableCluster) -> None:
    """Kill the server, and start another one half a second later."""
    port = int(cluster.location.endpoint.rpartition(":")[2])
    address = f"127.0.0.1:{port}".encode()
    for pid in processes(
        lambda place: (
            b"versitygw" in (command := (place / "cmdline").read_bytes()) and address in command
        )
    ):
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    cluster.servers.enter_context(running_s3(cluster.folder, port=port))


def act(cluster: KillableCluster, file: Path, action: str, **more: Any) -> Mapping[str, Any]:
    """Run an action whose phases are retried, and return its status."""
    blueprint = parse_document(file.read_bytes(), file.name).value
    for phase in blueprint["actions"][action]["phases"]:
        phase["retry"] = {"limit": 3, "backoff": "1s", "on": PASSING}
    more |= {"object": CLAIM, "profile": PROFILE}
    settings = RunSettings(cluster=cluster.cluster)
    run = run_blueprint(blueprint, action, settings=settings, **more)
    status = run.wait(PATIENCE_SECONDS).status
    assert status["state"] == "complete", status["error"]
    result: Mapping[str, Any] = status["actions"][0]
    return result


def in_volume(cluster: KillableCluster, script: str) -> str:
    settings = RunSettings(cluster=cluster.cluster)
    options = {"script": f'{script}; kando output sum "$(cksum <large)"'}
    run = run_blueprint(IN_VOLUME, "do", settings=settings, object=CLAIM, options=options)
    status = run.wait(PATIENCE_SECONDS).status
    assert status["state"] == "complete", status["error"]
    return str(status["actions"][0]["phases"][0]["output"]["sum"])


@contextmanager
def killed(
    cluster: KillableCluster,
    moment: Callable[[KillableCluster], object],
    kill: Callable[[KillableCluster], None],
) -> Iterator[None]:
    """Kill at a moment of the action in the block, unless that moment does not occur."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.01):
            if moment(cluster):
                kill(cluster)
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


VICTIMS = {"restic": kill_restic, "the pod": kill_pod, "the store": kill_store}
OF_BACKUP = {
    "the pod is there": lambda cluster: cluster.helpers(),
    "the repository is there": lambda cluster: cluster.keys("config"),
    "it is locked": lambda cluster: cluster.keys("locks/"),
    "some data is there": lambda cluster: cluster.keys("data/") >= 3,
    "the snapshot is there": lambda cluster: cluster.keys("snapshots/"),
}
OF_RESTORE = {
    "the pod is there": lambda cluster: cluster.helpers(),
    "it is locked": lambda cluster: cluster.keys("locks/"),
    "some is written": lambda cluster: cluster.restored_bytes(),
    "all is written": lambda cluster: cluster.restored_bytes() >= MEBIBYTES << 20,
}
IS_LONG = bool(os.environ.get("KANISTER_PY_KILLS"))
BACKUPS = [(who, when) for who in VICTIMS for when in OF_BACKUP]
RESTORES = [(who, when) for who in VICTIMS for when in OF_RESTORE]


def check(cluster: KillableCluster) -> None:
    """Check that there is one complete snapshot, and nothing else of the run."""
    assert len(json.loads(restic(cluster.location, "snapshots", "--json"))) == 1
    restic(cluster.location, "check", "--read-data")
    assert cluster.helpers() == []
    assert cluster.keys("locks/") == 0


@pytest.mark.parametrize(
    ("who", "when"), BACKUPS if IS_LONG else [("restic", "some data is there")]
)
def test_backup_exists_once_after_a_kill(
    cluster: KillableCluster, blueprints: Path, who: str, when: str
) -> None:
    file = blueprints / "pvc-restic" / "blueprint.yaml"
    before = in_volume(cluster, f"head -c {MEBIBYTES}M /dev/urandom >large")
    with killed(cluster, OF_BACKUP[when], VICTIMS[who]):
        done = act(cluster, file, "backup")
    assert done["phases"][0]["output"]["size"] == f"{MEBIBYTES}.000 MiB"
    check(cluster)
    assert in_volume(cluster, "true") == before


@pytest.mark.parametrize(("who", "when"), RESTORES if IS_LONG else [("the pod", "some is written")])
def test_restore_is_complete_after_a_kill(
    cluster: KillableCluster, blueprints: Path, who: str, when: str
) -> None:
    file = blueprints / "pvc-restic" / "blueprint.yaml"
    before = in_volume(cluster, f"head -c {MEBIBYTES}M /dev/urandom >large")
    artifacts = act(cluster, file, "backup")["artifacts"]
    in_volume(cluster, "rm large; : >large")
    with killed(cluster, OF_RESTORE[when], VICTIMS[who]):
        act(cluster, file, "restore", artifacts=artifacts)
    assert in_volume(cluster, "true") == before
    check(cluster)
