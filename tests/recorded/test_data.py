"""Data functions v0.0.0 work with restic and a real S3 server as in Kanister.

The recorded ActionSets depend on the objects that earlier ones left in the bucket. They run once,
in the recorded order, and each is compared with its record. Changes between them that were not
recorded are repeated here.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.core.kube.resources import PODS
from kanister_py.core.yaml.documents import parse_document, parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.pod_host import PodHost
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.ports.cluster import EventType, ExecSession
from kanister_py.ports.object_store import ObjectStore
from kanister_py.runs import RunSettings, run_actionset
from kanister_py.wiring import object_stores
from tests.stores import running_store

pytestmark = pytest.mark.long

RECORDED = Path(os.environ["KANISTER_PY_RECORDED"]) / "data"
CASES = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
WITH_MORE = [case for case in CASES if (RECORDED / case / "bucket.txt").exists()]
"""Only the error of the other cases was recorded."""
ENDPOINT = "http://127.0.0.1:7070"

# The order of the first cases matters, because the others need their backups.
FIRST = [
    "copy_volume_image_prefix_no_bucket",
    "backup_data",
    "backup_data_again",
    "backup_all_prefix_no_bucket",
    "restore_all_prefix_no_bucket",
    "restore_all",
    "copy_volume_mount_path",
    "stats",
    "stats_unknown_id",
    "stats_wrong_password",
    "check_good",
    "check_prefix_no_bucket",
    "check_wrong_password",
    "restore_by_id",
    "backup_output_artifact",
]
LAST = [
    "delete_by_tag",
    "delete_by_id_reclaim",
    "backup_for_delete",
    "delete_only_snapshot_reclaim",
    "delete_all",
    "backup_badid",
    "location_delete_bucket_in_front",
    "location_delete_leading_slash",
    "location_delete_profile_prefix",
    "backup_for_panic",
    "backup_for_panic_2",
    "delete_two_ids_one_prefix",
]
ORDER = [*FIRST, *(case for case in CASES if case not in {*FIRST, *LAST}), *LAST]

# Cases whose backups were created without a record.
HIDDEN_ALL = "restore_all_prefix_no_bucket"
HIDDEN_COPY = "copy_volume_mount_path"
PLAIN_OBJECTS = (
    "one/x",
    "two/x",
    "three/x",
    "loc/a",
    "loc/b",
    "loc/sub/c",
    "location2",
    "profprefix/k/x",
    "kbucketish/x",
    "single",
)
# Objects that unrecorded cases deleted.
UNRECORDED_DELETIONS = {
    "location_delete_leading_slash": ("two/x",),
    "location_delete_profile_prefix": ("loc/a", "loc/b", "loc/sub/c", "location2"),
}

# Kanister's messages name its source files, or say less than ours.
EXPECTED_TEXTS = {
    "backup_credential_secret": "Key 'aws_access_key_id' not found in secret",
    "backup_container_missing": "nosuch",
    "backup_pod_missing": 'pods "nosuch" not found',
    "backup_all_one_pod_missing": 'pods "nosuch" not found',
    "copy_volume_no_pvc": "Failed to retrieve PVC.",
    "delete_all_bad_json": "Could not decode JSON data",
    "restore_all_bad_json": "Could not decode JSON data",
    # The original crashed.
    "delete_two_ids_one_prefix": "backupArtifactPrefix names 1 places for 2 backups",
}


@dataclass
class CaseResult:
    """Final status of an ActionSet, its commands and pods, and the objects in the bucket."""

    status: Mapping[str, Any]
    commands: Sequence[tuple[str, list[str]]]
    pods: Sequence[Mapping[str, Any]]
    keys: Sequence[str]


class RecordingCluster(MemoryCluster):
    """Cluster that records the commands started in containers."""

    def __init__(self, namespace: str) -> None:
        super().__init__(clock=SystemClock(), default_namespace=namespace)
        self.commands: list[tuple[str, list[str]]] = []

    def exec(self, name: str, command: Sequence[str], **options: Any) -> ExecSession:
        session = super().exec(name, command, **options)
        self.commands.append((name, [*command]))
        return session


@dataclass
class Replay:
    """Runner of cases, each once and in the recorded order."""

    cluster: RecordingCluster
    endpoint: str
    store: ObjectStore
    results: dict[str, CaseResult] = field(default_factory=dict)
    new_names: dict[str, str] = field(default_factory=dict)
    """IDs and tags of this run, by their recorded values."""

    def until(self, name: str) -> CaseResult:
        for case in ORDER[: ORDER.index(name) + 1]:
            if case not in self.results:
                self._prepare(case)
                self.results[case] = self._run(case)
        return self.results[name]

    def translated(self, value: Any) -> Any:
        """Replace recorded names by those of this run.

        Not in YAML text, where an ID such as `908144e1` would be parsed as a number.
        """
        return translated(value, {**self.new_names, ENDPOINT: self.endpoint})

    def _prepare(self, name: str) -> None:
        if name == HIDDEN_ALL:
            case = RECORDED / "backup_all_prefix_no_bucket"
            recorded = info_of(RECORDED / "delete_all")
            result = self._run_case(case, {"allplain": "kbucket/all"})
            self._record_all(recorded, json.loads(output_of(result.status)["BackupAllInfo"]))
        elif name == HIDDEN_COPY:
            seed(self.cluster, "lone-user", "/data")
            self._run_case(RECORDED / name)
        elif name == "location_delete_bucket_in_front":
            for key in PLAIN_OBJECTS:
                self.store.put(key, [b"x"])
        self.store.delete(UNRECORDED_DELETIONS.get(name, ()))

    def _run(self, name: str) -> CaseResult:
        done = self._run_case(RECORDED / name)
        recorded = RECORDED / name / "status.json"
        if recorded.exists() and done.status["state"] == "complete":
            self._record(output_of(json.loads(recorded.read_text())), output_of(done.status))
        return done

    def _record(self, theirs: Mapping[str, str], ours: Mapping[str, str]) -> None:
        for key in ("backupID", "backupTag"):
            if key in theirs:
                self.new_names[theirs[key]] = ours[key]
        if "BackupAllInfo" in theirs:
            self._record_all(json.loads(theirs["BackupAllInfo"]), json.loads(ours["BackupAllInfo"]))

    def _record_all(self, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
        for pod, info in theirs.items():
            for key in ("BackupID", "BackupTag"):
                self.new_names[info[key]] = ours[pod][key]

    def _run_case(self, case: Path, names: Mapping[str, str] | None = None) -> CaseResult:
        blueprint = translated(self.translated(document_in(case, "blueprint")), names or {})
        actionset = self.translated(document_in(case, "actionset"))
        before = self.cluster.list(PODS).resource_version
        self.cluster.commands.clear()
        settings = RunSettings(cluster=self.cluster, namespace="kanister")
        status = run_actionset(actionset, [blueprint], settings).wait(180).status
        with self.cluster.watch(PODS, resource_version=before, timeout_seconds=0.01) as events:
            pods = [event.object for event in events if event.type is EventType.ADDED]
        keys = [obj.key for obj in self.store.list("") if not obj.key.startswith(".")]
        return CaseResult(status, list(self.cluster.commands), pods, keys)


def translated(value: Any, names: Mapping[str, str]) -> Any:
    """Replace names in all strings of a value, in one pass."""
    if isinstance(value, Mapping):
        return {key: translated(field, names) for key, field in value.items()}
    if isinstance(value, list):
        return [translated(entry, names) for entry in value]
    if not isinstance(value, str) or not names:
        return value
    longest_first = sorted(names, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda match: names[match[0]], value)


def document_in(case: Path, kind: str) -> Any:
    return parse_document((case / f"{kind}.yaml").read_bytes(), kind).value


def info_of(case: Path) -> Any:
    (phase,) = document_in(case, "blueprint")["actions"]["act"]["phases"]
    return json.loads(phase["args"]["backupInfo"])


def output_of(status: Mapping[str, Any]) -> Mapping[str, str]:
    return status["actions"][0]["phases"][0].get("output") or {}


def seed(cluster: MemoryCluster, pod: str, folder: str) -> None:
    """Write two files, one of them in a folder, to the volume of a container."""
    script = (
        f"cd {folder} && mkdir -p sub && printf 'hello data\\n\\n' >a.txt "
        "&& head -c 3000 /dev/zero >sub/b.bin"
    )
    with cluster.exec(pod, ["sh", "-c", script], namespace="dataref") as session:
        list(session)
        assert session.exit_code == 0


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    with running_store(StoreKind.S3, tmp_path_factory.mktemp("s3")) as location:
        yield location


@pytest.fixture(scope="module")
def replay(location: Location, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replay]:
    """A cluster with the objects of all cases; pods run as processes."""
    cluster = RecordingCluster("kanister")
    state = tmp_path_factory.mktemp("state")
    pods = PodHost(cluster, ProcessPodRunner(SystemClock(), state=state), SystemClock())
    cluster.attach_pods(pods.node)
    pods.start()
    text = (RECORDED / "objects.yaml").read_text().replace(ENDPOINT, location.endpoint)
    text += LONE_USER
    for document in parse_documents(text.encode()):
        cluster.create(document.value)
    pods.wait_until_workloads_ready(lambda: True)
    for pod in ("app-0", "app-1"):
        seed(cluster, pod, "/tmp/dataref-vol")
    yield Replay(cluster, location.endpoint, object_stores().open(location))
    pods.close()


LONE_USER = """
---
apiVersion: v1
kind: Pod
metadata: {name: lone-user, namespace: dataref}
spec:
  containers:
    - name: main
      image: busybox
      command: [sleep, "3600"]
      volumeMounts: [{name: v, mountPath: /data}]
  volumes:
    - {name: v, persistentVolumeClaim: {claimName: lone}}
"""


def recorded_end(case: Path) -> tuple[str, str, Mapping[str, str]]:
    """Return the recorded state, error and outputs of a case."""
    if (case / "status.json").exists():
        status = json.loads((case / "status.json").read_text())
        return status["state"], status["error"]["message"], output_of(status)
    state, _, message = (case / "message.txt").read_text().partition(" ")
    return state, ast.literal_eval(message.strip()), {}


@pytest.mark.parametrize("ours", ["908144e1", "12345678", "0123"])
def test_numeric_id_stays_a_string(ours: str) -> None:
    recorded = document_in(RECORDED / "delete_by_id_reclaim", "blueprint")
    (phase,) = translated(recorded, {"6b94ab25": ours})["actions"]["act"]["phases"]
    assert phase["args"]["backupID"] == ours


def test_new_names_are_not_replaced_again() -> None:
    assert translated(["a1 b2", {"id": "b2"}], {"a1": "b2", "b2": "c3"}) == ["b2 c3", {"id": "c3"}]


NOT_COMPARED = ("backupID", "backupTag", "BackupAllInfo")


@pytest.mark.parametrize("name", CASES)
def test_case_ends_as_in_kanister(name: str, replay: Replay) -> None:
    status = replay.until(name).status
    state, message, outputs = recorded_end(RECORDED / name)
    if name == "delete_two_ids_one_prefix":
        state, message = "failed", EXPECTED_TEXTS[name]
    assert status["state"] == state, status["error"]
    ours = output_of(status)
    assert ours.keys() == outputs.keys()
    assert without(ours) == without(outputs)
    error = status["error"]["message"]
    for part in expected_texts(name, replay.translated(message)):
        assert part.lower() in error.lower()
    if state == "complete":
        assert error == ""


def without(outputs: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in outputs.items() if key not in NOT_COMPARED}


def expected_texts(name: str, message: str) -> list[str]:
    """Return the texts that our error must contain: Kanister's message and printed lines."""
    if name in EXPECTED_TEXTS:
        return [EXPECTED_TEXTS[name]]
    if not message:
        return []
    # Our message names the function differently.
    text = re.sub(r"^(null: )?((Required|Checking).*? function \w+\.?: )?", "", message)
    words, *printed = text.splitlines()
    lines = (line.removeprefix("stdout: ").removeprefix("stderr: ").strip() for line in printed)
    return [words.rstrip("."), *(line for line in lines if line)]


def normalised(commands: Sequence[tuple[str, list[str]]]) -> list[tuple[str, str]]:
    """Return the commands by pod, without generated names of pods and new tags."""
    return sorted(
        (
            re.sub(r"(?<=-)[a-z0-9]+$", "", pod) if not pod.startswith("app-") else pod,
            re.sub(r"(backup --tag )\S+", r"\1TAG", "\0".join(command)),
        )
        for pod, command in commands
    )


def recorded_commands(case: Path) -> list[tuple[str, list[str]]]:
    file = case / "exec.log"
    listed = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
    return [(command["pod"], command["exec"]) for command in listed]


@pytest.mark.parametrize("name", CASES)
def test_commands_equal_those_of_kanister(name: str, replay: Replay) -> None:
    commands = replay.until(name).commands
    recorded = [
        (pod, [replay.translated(word) for word in command])
        for pod, command in recorded_commands(RECORDED / name)
    ]
    if name == "delete_two_ids_one_prefix":
        # Kanister ran the first command; our run is refused before it starts.
        recorded = []
    assert normalised(commands) == normalised(recorded)
    if "all" not in name:
        text = [re.sub(r"(--tag )\S+", r"\1TAG", command[1][-1]) for command in recorded]
        assert [re.sub(r"(--tag )\S+", r"\1TAG", command[1][-1]) for command in commands] == text


def repositories_in(commands: Sequence[tuple[str, list[str]]]) -> set[str]:
    repositories = re.findall(r"RESTIC_REPOSITORY=s3:http://[^/]+/kbucket/(\S+)", repr(commands))
    return {repository.replace("\\n", "") for repository in repositories}


def shape_of(keys: Sequence[str], repository: str) -> dict[str, int]:
    """Count the objects of a repository, except packs and indexes, whose number varies."""
    inside = [key.removeprefix(f"{repository}/") for key in keys if key.startswith(repository)]
    return {
        kind: sum(key.startswith(kind) for key in inside)
        for kind in ("config", "keys/", "snapshots/", "locks/")
    }


@pytest.mark.parametrize(
    "name", [case for case in CASES if (RECORDED / case / "bucket.txt").exists()]
)
def test_bucket_equals_that_of_kanister(name: str, replay: Replay) -> None:
    result = replay.until(name)
    recorded = (RECORDED / name / "bucket.txt").read_text().splitlines()
    theirs = [key.removeprefix("kbucket/") for key in recorded if key.startswith("kbucket/")]
    for repository in repositories_in(recorded_commands(RECORDED / name)):
        if name == "delete_two_ids_one_prefix":
            continue
        assert shape_of(result.keys, repository) == shape_of(theirs, repository), repository
    if name.startswith("location_delete"):
        plain = [key for key in result.keys if key in PLAIN_OBJECTS]
        assert plain == sorted(key for key in theirs if key in PLAIN_OBJECTS)


def comparable_pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    metadata, spec = pod["metadata"], pod["spec"]
    (container,) = spec["containers"]
    mounts = [volume_mount["mountPath"] for volume_mount in container.get("volumeMounts", ())]
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in spec.get("volumes", ())
        if "persistentVolumeClaim" in volume
    ]
    return {
        "name": metadata.get("generateName") or re.sub(r"[a-z0-9]+$", "", metadata["name"]),
        "namespace": metadata["namespace"],
        # Our labels identify pods; Kanister has none of them.
        "labels": {
            key: value
            for key, value in metadata["labels"].items()
            if not key.startswith("kanister-py.io/")
        },
        "restartPolicy": spec["restartPolicy"],
        "container": {
            key: container[key] for key in ("name", "image", "command", "imagePullPolicy")
        },
        "mounts": [mount for mount in mounts if "serviceaccount" not in mount],
        "claims": claims,
    }


@pytest.mark.parametrize(
    "name", [case for case in CASES if (RECORDED / case / "pods.json").exists()]
)
def test_pods_equal_those_of_kanister(name: str, replay: Replay) -> None:
    pods = [comparable_pod(pod) for pod in replay.until(name).pods]
    recorded = json.loads((RECORDED / name / "pods.json").read_text())
    if name == "delete_two_ids_one_prefix":
        recorded = []
    theirs = [comparable_pod(pod) for pod in recorded]
    assert sorted(pods, key=str) == sorted(theirs, key=str)
