"""Whatever is killed while files go to a store or come back, a run ends, and ends whole.

Two are killed here once. `KANISTER_PY_KILLS` has everybody killed at every step, which
takes minutes.
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
from tests.blueprints.test_files import IN_VOLUME
from tests.blueprints.test_killed_backups import restic
from tests.stores import running_s3

pytestmark = [pytest.mark.usefixtures("mounts"), pytest.mark.long]

CLAIM = "PersistentVolumeClaim/shop/pictures"
PROFILE = {"name": "backups", "namespace": "shop"}
MEBIBYTES = 60
PATIENCE_SECONDS = 300
PASSING = ["CommandFailed", "StreamLost", "NotFound", "PodGone"]
"""What a phase fails with when restic or its pod was killed."""


class World(NamedTuple):
    """A cluster whose pods are processes, and a store that can be killed."""

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
def world(tmp_path: Path, blueprints: Path) -> Iterator[World]:
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
        yield World(cluster, location, state, folder, servers)
    pods.close()


def processes(is_meant: Callable[[Path], bool]) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            if path.name.isdigit() and is_meant(path):
                found.append(int(path.name))
    return found


def kill_restic(world: World) -> None:
    repository = f"{world.location.endpoint}/{world.location.bucket}/restic/shop".encode()
    for pid in processes(
        lambda place: (
            (place / "comm").read_text().strip() == "restic"
            and repository in (place / "environ").read_bytes()
        )
    ):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_pod(world: World) -> None:
    for name in world.helpers():
        with suppress(NotFound):
            world.cluster.delete(PODS, name, namespace="shop", grace_period_seconds=0)


def kill_store(world: World) -> None:
    """Kill the server, and have another one half a second later."""
    port = int(world.location.endpoint.rpartition(":")[2])
    address = f"127.0.0.1:{port}".encode()
    for pid in processes(
        lambda place: (
            b"versitygw" in (command := (place / "cmdline").read_bytes()) and address in command
        )
    ):
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    world.servers.enter_context(running_s3(world.folder, port=port))


def act(world: World, file: Path, action: str, **more: Any) -> Mapping[str, Any]:
    """Run an action whose phases are tried again, and give what became of it."""
    blueprint = parse_document(file.read_bytes(), file.name).value
    for phase in blueprint["actions"][action]["phases"]:
        phase["retry"] = {"limit": 3, "backoff": "1s", "on": PASSING}
    more |= {"object": CLAIM, "profile": PROFILE}
    settings = RunSettings(cluster=world.cluster)
    run = run_blueprint(blueprint, action, settings=settings, **more)
    status = run.wait(PATIENCE_SECONDS).status
    assert status["state"] == "complete", status["error"]
    found: Mapping[str, Any] = status["actions"][0]
    return found


def in_volume(world: World, script: str) -> str:
    settings = RunSettings(cluster=world.cluster)
    options = {"script": f'{script}; kando output sum "$(cksum <large)"'}
    run = run_blueprint(IN_VOLUME, "do", settings=settings, object=CLAIM, options=options)
    status = run.wait(PATIENCE_SECONDS).status
    assert status["state"] == "complete", status["error"]
    return str(status["actions"][0]["phases"][0]["output"]["sum"])


@contextmanager
def killed(
    world: World, moment: Callable[[World], object], kill: Callable[[World], None]
) -> Iterator[None]:
    """Kill at a moment of what is done meanwhile; not at all if that was never seen."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.01):
            if moment(world):
                kill(world)
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
    "the pod is there": lambda world: world.helpers(),
    "the repository is there": lambda world: world.keys("config"),
    "it is locked": lambda world: world.keys("locks/"),
    "some data is there": lambda world: world.keys("data/") >= 3,
    "the snapshot is there": lambda world: world.keys("snapshots/"),
}
OF_RESTORE = {
    "the pod is there": lambda world: world.helpers(),
    "it is locked": lambda world: world.keys("locks/"),
    "some is written": lambda world: world.restored_bytes(),
    "all is written": lambda world: world.restored_bytes() >= MEBIBYTES << 20,
}
IS_LONG = bool(os.environ.get("KANISTER_PY_KILLS"))
BACKUPS = [(who, when) for who in VICTIMS for when in OF_BACKUP]
RESTORES = [(who, when) for who in VICTIMS for when in OF_RESTORE]


def check(world: World) -> None:
    """Say that there is one snapshot, whole, and nothing else of the run."""
    assert len(json.loads(restic(world.location, "snapshots", "--json"))) == 1
    restic(world.location, "check", "--read-data")
    assert world.helpers() == []
    assert world.keys("locks/") == 0


@pytest.mark.parametrize(
    ("who", "when"), BACKUPS if IS_LONG else [("restic", "some data is there")]
)
def test_a_backup_is_there_once_whatever_is_killed(
    world: World, blueprints: Path, who: str, when: str
) -> None:
    file = blueprints / "pvc-restic" / "blueprint.yaml"
    before = in_volume(world, f"head -c {MEBIBYTES}M /dev/urandom >large")
    with killed(world, OF_BACKUP[when], VICTIMS[who]):
        done = act(world, file, "backup")
    assert done["phases"][0]["output"]["size"] == f"{MEBIBYTES}.000 MiB"
    check(world)
    assert in_volume(world, "true") == before


@pytest.mark.parametrize(("who", "when"), RESTORES if IS_LONG else [("the pod", "some is written")])
def test_a_restore_is_whole_whatever_is_killed(
    world: World, blueprints: Path, who: str, when: str
) -> None:
    file = blueprints / "pvc-restic" / "blueprint.yaml"
    before = in_volume(world, f"head -c {MEBIBYTES}M /dev/urandom >large")
    artifacts = act(world, file, "backup")["artifacts"]
    in_volume(world, "rm large; : >large")
    with killed(world, OF_RESTORE[when], VICTIMS[who]):
        act(world, file, "restore", artifacts=artifacts)
    assert in_volume(world, "true") == before
    check(world)
