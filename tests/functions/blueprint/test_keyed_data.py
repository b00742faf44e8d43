"""Data functions v0.1.0 on a real S3 server, with real restic in real pods."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.kube.locations import Location
from kanister_py.core.kube.quantities import in_units
from kanister_py.core.kube.resources import PODS
from kanister_py.core.templates.facts import ActionFacts, Workload
from kanister_py.core.yaml.weak import InvalidArgs, decode_args
from kanister_py.functions.blueprint.backup_data.v0_1_0 import BackupDataV010
from kanister_py.functions.blueprint.backup_data_all.v0_1_0 import BackupDataAllV010
from kanister_py.functions.blueprint.backup_data_stats.v0_1_0 import BackupDataStatsV010
from kanister_py.functions.blueprint.check_repository.v0_1_0 import CheckRepositoryV010
from kanister_py.functions.blueprint.copy_volume_data.v0_1_0 import CopyVolumeDataV010
from kanister_py.functions.blueprint.delete_data.v0_1_0 import DeleteDataV010
from kanister_py.functions.blueprint.delete_data_all.v0_1_0 import DeleteDataAllV010
from kanister_py.functions.blueprint.location_delete.v0_1_0 import LocationDeleteV010
from kanister_py.functions.blueprint.restore_data.v0_1_0 import RestoreDataV010
from kanister_py.functions.blueprint.restore_data_all.v0_1_0 import RestoreDataAllV010
from kanister_py.wiring import object_stores
from tests.functions.blueprint.conftest import Harness, failure
from tests.functions.blueprint.data import claim, facts_for, keys, mounted
from tests.functions.blueprint.restic_calls import KEY, location, restic, restic_environment, server
from tests.stores import running_s3

__all__ = ["location", "server"]


@pytest.fixture
def facts(location: Location) -> ActionFacts:
    claims = {"user": {"data": "/v"}}
    workload = Workload("app", "default", ("user",), (("main",),), claims)
    return facts_for(location, stateful_set=workload)


@pytest.fixture
def app(harness: Harness) -> Harness:
    """A pod with a volume that contains two files."""
    claim(harness, "data")
    mounted(harness, "mkdir -p /v/sub; echo one >/v/a; echo two >/v/sub/b")
    return harness


def args(**more: Any) -> dict[str, Any]:
    return {"namespace": "default", "encryptionKey": KEY, **more}


BACKUP = args(pod="user", includePath="/v", backupArtifactPrefix="repo")
EVERY_BACKUP = args(includePath="/v", backupArtifactPrefix="all")


def snapshots(location: Location) -> list[Mapping[str, Any]]:
    return json.loads(restic(location, "snapshots", "--json")) or []


def test_backup_and_restore_of_a_pod_without_restic(
    app: Harness, facts: ActionFacts, location: Location
) -> None:
    done = app.call(BackupDataV010, BACKUP, facts=facts)
    assert (done["fileCount"], done["size"], done["version"]) == ("2", "8 B", "v0.1.0")
    mounted(app, "rm -r /v/a /v/sub; echo new >/v/c")
    restore = args(pod="user", backupArtifactPrefix="repo", backupTag=done["backupTag"])
    app.call(RestoreDataV010, restore, facts=facts, uid="restore")
    assert mounted(app, "cd /v; cat a sub/b c") == b"one\ntwo\nnew\n"
    stats = args(backupArtifactPrefix="kbucket/repo", backupID=done["backupID"])
    assert app.call(BackupDataStatsV010, stats, facts=facts, uid="stats")["sizeBytes"] == "8"
    raw = app.call(BackupDataStatsV010, {**stats, "statsMode": "raw-data"}, facts=facts, uid="raw")
    assert int(raw["fileCount"]) > 2
    delete = args(backupArtifactPrefix="repo", backupID=done["backupID"], reclaimSpace=True)
    freed = app.call(DeleteDataV010, delete, facts=facts, uid="delete")["spaceFreed"]
    assert int(freed.removesuffix(" B")) > 0
    assert snapshots(location) == []
    again = app.call(DeleteDataV010, delete, facts=facts, uid="again")
    assert again["spaceFreed"] == "0 B"
    assert [pod["metadata"]["name"] for pod in app.pods()] == ["user"]


def test_part_of_a_backup_is_restored_to_another_folder(app: Harness, facts: ActionFacts) -> None:
    done = app.call(BackupDataV010, BACKUP, facts=facts)
    mounted(app, "rm -r /v/*")
    restore = args(
        volumes={"data": "/v"},
        backupArtifactPrefix="repo",
        backupIdentifier=done["backupID"],
        backupPath="/v/sub",
    )
    app.call(RestoreDataV010, restore, facts=facts, uid="restore")
    assert mounted(app, "cd /v; find . -type f") == b"./sub/b\n"


@pytest.mark.parametrize(
    ("where", "message"),
    [
        pytest.param({"volumes": {"data": "/elsewhere"}}, "/v of the backup", id="other mount"),
        pytest.param(
            {"pod": "user", "restorePath": "/nowhere"},
            "/nowhere/v",
            id="other folder",
            marks=pytest.mark.long,
        ),
        pytest.param({"pod": "user", "restorePath": "/v"}, "repeats the path", id="its own path"),
        pytest.param(
            {"pod": "user", "restorePath": "/v/../etc"},
            "without ..",
            id="out of it",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"pod": "user", "restorePath": "v"},
            "absolute path",
            id="relative",
            marks=pytest.mark.long,
        ),
        pytest.param({"pod": "user", "backupPath": "/w"}, "is not in the backup", id="other part"),
        pytest.param(
            {"pod": "user", "backupPath": "/v/su"},
            "is not in the backup",
            id="misspelt",
            marks=pytest.mark.long,
        ),
    ],
)
def test_restore_outside_of_volumes_is_rejected(
    app: Harness, facts: ActionFacts, where: dict[str, Any], message: str
) -> None:
    done = app.call(BackupDataV010, BACKUP, facts=facts)
    mounted(app, "rm -r /v/*")
    restore = args(**where, backupArtifactPrefix="repo", backupIdentifier=done["backupID"])
    error = failure(lambda: app.call(RestoreDataV010, restore, facts=facts, uid="restore"))
    assert message in error.message
    assert mounted(app, "find /v -type f") == b""


def test_a_backup_can_be_restored_into_another_folder_of_its_volume(
    app: Harness, facts: ActionFacts
) -> None:
    done = app.call(BackupDataV010, BACKUP, facts=facts)
    restore = args(
        volumes={"data": "/restored/v"},
        restorePath="/restored",
        backupArtifactPrefix="repo",
        backupIdentifier=done["backupID"],
    )
    mounted(app, "rm -r /v/*")
    app.call(RestoreDataV010, restore, facts=facts, uid="restore")
    assert mounted(app, "cat /v/a /v/sub/b") == b"one\ntwo\n"


def test_backup_with_files_outside_of_volumes_is_rejected(app: Harness, facts: ActionFacts) -> None:
    done = app.call(BackupDataV010, BACKUP, facts=facts)
    mounted(app, "rm -r /v/*")
    # Only /v/sub is on the volume: /v/a would be lost with the pod.
    restore = args(
        volumes={"data": "/v/sub"},
        backupArtifactPrefix="repo",
        backupIdentifier=done["backupID"],
    )
    error = failure(lambda: app.call(RestoreDataV010, restore, facts=facts, uid="restore"))
    assert "/v/a of the backup would be restored to /v/a" in error.message
    part = {**restore, "backupPath": "/v/sub"}
    app.call(RestoreDataV010, part, facts=facts, uid="part")
    assert mounted(app, "cd /v; find . -type f") == b"./b\n"


def test_all_pods_are_backed_up_and_restored(app: Harness, facts: ActionFacts) -> None:
    done = app.call(BackupDataAllV010, EVERY_BACKUP, facts=facts)
    info = json.loads(done["BackupAllInfo"])
    assert [*info["user"]] == ["PodName", "BackupID", "BackupTag"]
    mounted(app, "rm -r /v/*")
    more = args(backupArtifactPrefix="all", backupInfo=done["BackupAllInfo"])
    app.call(RestoreDataAllV010, more, facts=facts, uid="restore")
    assert mounted(app, "cat /v/a /v/sub/b") == b"one\ntwo\n"
    deleted = app.call(DeleteDataAllV010, {**more, "reclaimSpace": True}, facts=facts, uid="del")
    assert deleted["spaceFreed"] != "0 B"


# One backup per run


def test_resumed_backup_is_created_once(
    app: Harness, facts: ActionFacts, location: Location
) -> None:
    first = app.call(BackupDataV010, BACKUP, facts=facts, is_written_down=False)
    # The process died before the outcome was recorded, and another one resumes the attempt.
    second = app.call(BackupDataV010, BACKUP, facts=facts, is_resumed=True)
    third = app.call(BackupDataV010, BACKUP, facts=facts, attempt=2)
    assert first["backupID"] == second["backupID"] == third["backupID"]
    assert (third["fileCount"], third["size"]) == (first["fileCount"], first["size"])
    assert len(snapshots(location)) == 1
    other = app.call(BackupDataV010, BACKUP, facts=facts, uid="another run")
    assert other["backupID"] != first["backupID"]
    assert len(snapshots(location)) == 2


@pytest.mark.long
def test_killed_backup_is_repeated_and_its_lock_removed(
    app: Harness, facts: ActionFacts, location: Location
) -> None:
    app.call(BackupDataV010, BACKUP, facts=facts, uid="before")
    mounted(app, "head -c 150000000 /dev/urandom >/v/large")
    killed = app.start(BackupDataV010, BACKUP, facts=facts, is_written_down=False)
    for _ in range(6000):
        if keys(location, "repo/locks/") and len(keys(location, "repo/data/")) > 5:
            break
        time.sleep(0.02)
    (pod,) = [pod for pod in app.pods() if pod["metadata"]["name"] != "user"]
    app.cluster.delete(PODS, pod["metadata"]["name"], namespace="default", grace_period_seconds=0)
    failure(killed.result)
    assert keys(location, "repo/locks/")
    # Only a deletion locks the repository exclusively, and the lock of the dead pod blocks it.
    again = app.call(BackupDataV010, BACKUP, facts=facts, is_resumed=True)
    assert len(snapshots(location)) == 2
    delete = args(backupArtifactPrefix="repo", backupID=again["backupID"], reclaimSpace=True)
    app.call(DeleteDataV010, delete, facts=facts, uid="delete")
    assert any("Removed" in line for line in app.log)
    assert keys(location, "repo/locks/") == []
    restic(location, "check", "--read-data")


@pytest.mark.long
def test_active_lock_is_waited_for(app: Harness, facts: ActionFacts, location: Location) -> None:
    done = app.call(BackupDataV010, BACKUP, facts=facts)
    command = ["restic", "backup", "--stdin", "--stdin-filename", "slow", "--quiet"]
    env = restic_environment(location)
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=env) as working:
        try:
            for _ in range(6000):
                if keys(location, "repo/locks/"):
                    break
                time.sleep(0.02)
            delete = args(backupArtifactPrefix="repo", backupID=done["backupID"], reclaimSpace=True)
            waiting = app.start(DeleteDataV010, delete, facts=facts, uid="delete")
            for _ in range(6000):
                if any("The repository is locked" in line for line in app.log):
                    break
                time.sleep(0.02)
            assert waiting.thread.is_alive()
            assert working.poll() is None
            assert keys(location, "repo/locks/")
        finally:
            working.communicate(b"slow")
        assert working.returncode == 0
        waiting.result()
    assert [snapshot["paths"] for snapshot in snapshots(location)] == [["/slow"]]
    assert not any("Removed" in line for line in app.log)


@pytest.mark.long
def test_retention_deletes_only_older_backups_of_the_same_place(
    app: Harness, facts: ActionFacts, location: Location
) -> None:
    volume = args(volume="data", dataArtifactPrefix="repo")
    app.call(CopyVolumeDataV010, volume, facts=facts, uid="volume")
    for number in range(4):
        mounted(app, f"echo {number} >/v/a")
        keep = {**BACKUP, "keep": {"last": 2}, "prune": True}
        last = app.call(BackupDataV010, keep, facts=facts, uid=f"run {number}")
    listed = snapshots(location)
    assert [snapshot["paths"] for snapshot in listed] == [["/mnt/vol_data/data"], ["/v"], ["/v"]]
    assert listed[-1]["short_id"] == last["backupID"]
    restic(location, "check", "--read-data")


# Errors


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        pytest.param(
            {"keep": {"lsat": 2}},
            "keep.lsat is not supported; did you mean last",
            id="a misspelt retention",
        ),
        pytest.param({"keep": {"last": -1}}, "keep.last", id="fewer than none"),
        pytest.param({"prune": True}, "name keep, too", id="space of nothing"),
        pytest.param({"prune": True, "keep": {}}, "name keep, too", id="what keeps all"),
        pytest.param({"encryptionKey": ""}, "encryptionKey", id="an empty key"),
    ],
)
def test_invalid_retention_is_rejected(more: dict[str, Any], problem: str) -> None:
    for function, backup in ((BackupDataV010, BACKUP), (BackupDataAllV010, EVERY_BACKUP)):
        with pytest.raises(InvalidArgs) as refusal:
            decode_args(function.Args, {**backup, **more})
        assert problem in refusal.value.message


def test_wrong_key_is_an_error_and_creates_nothing(
    app: Harness, facts: ActionFacts, location: Location
) -> None:
    app.call(BackupDataV010, BACKUP, facts=facts)
    before = keys(location, "")
    wrong = {**BACKUP, "encryptionKey": "another-key"}
    error = failure(lambda: app.call(BackupDataV010, wrong, facts=facts, uid="other"))
    assert "The key does not open the repository kbucket/repo" in error.message
    assert keys(location, "") == before


def test_folder_outside_of_volumes_is_rejected_with_an_alternative(
    app: Harness, facts: ActionFacts
) -> None:
    nowhere = {**BACKUP, "includePath": "/etc"}
    error = failure(lambda: app.call(BackupDataV010, nowhere, facts=facts))
    assert "/etc of pod default/user is on none of its volumes" in error.message
    assert "v0.0.0" in error.message


def test_unknown_tag_is_named(app: Harness, facts: ActionFacts) -> None:
    app.call(BackupDataV010, BACKUP, facts=facts)
    restore = args(pod="user", backupArtifactPrefix="repo", backupTag="nosuch")
    error = failure(lambda: app.call(RestoreDataV010, restore, facts=facts, uid="restore"))
    assert "No backup has the tag nosuch" in error.message


@pytest.mark.long
def test_check_reads_the_data_of_a_repository(
    app: Harness, facts: ActionFacts, location: Location
) -> None:
    check = args(backupArtifactPrefix="repo", readData="100%")

    def outcome(uid: str, **more: Any) -> list[str]:
        outputs = app.call(CheckRepositoryV010, {**check, **more}, facts=facts, uid=uid)
        return [key for key, output in outputs.items() if output == "true"]

    assert outcome("none") == ["repoUnavailable"]
    app.call(BackupDataV010, BACKUP, facts=facts)
    assert outcome("whole") == []
    assert outcome("wrong key", encryptionKey="another-key") == ["passwordIncorrect"]
    store = object_stores().open(location)
    pack = keys(location, "repo/data/")[0]
    data = b"".join(store.get(pack))
    store.put(pack, [data[:-40] + bytes(40)])
    assert outcome("rotten") == ["damaged"]


@pytest.mark.parametrize("sample", ["0%", "200%", "0/3", "8/7", "1/257", "0G", "1.2.3%", "some"])
def test_invalid_sample_is_rejected_before_the_check(sample: str) -> None:
    check = args(backupArtifactPrefix="repo", readData=sample)
    with pytest.raises(InvalidArgs) as refusal:
        decode_args(CheckRepositoryV010.Args, check)
    assert [problem.path for problem in refusal.value.problems] == ["readData"]


@pytest.mark.parametrize("sample", ["", "5%", "0.5%", "100%", "1/1", "7/256", "2G"])
def test_sample_accepts_restics_formats(sample: str) -> None:
    check = args(backupArtifactPrefix="repo", readData=sample)
    assert decode_args(CheckRepositoryV010.Args, check).read_data == sample


@pytest.mark.long
def test_interrupted_check_reports_no_damage(
    app: Harness, facts: ActionFacts, location: Location
) -> None:
    mounted(app, "head -c 150000000 /dev/urandom >/v/large")
    app.call(BackupDataV010, BACKUP, facts=facts)
    check = args(backupArtifactPrefix="repo", readData="100%")
    cut = app.start(CheckRepositoryV010, check, facts=facts, uid="cut")
    for _ in range(6000):
        if keys(location, "repo/locks/"):
            break
        time.sleep(0.02)
    (pod,) = [pod for pod in app.pods() if pod["metadata"]["name"] != "user"]
    app.cluster.delete(PODS, pod["metadata"]["name"], namespace="default", grace_period_seconds=0)
    failure(cut.result)


def test_only_the_folder_is_deleted(harness: Harness, location: Location) -> None:
    store = object_stores().open(location)
    for key in ("a/1", "a/b/2", "ab", "a"):
        if key != "a":
            store.put(key, [b"x"])
    facts = facts_for(location)
    assert harness.call(LocationDeleteV010, {"artifact": "kbucket/a"}, facts=facts) == {
        "deleted": "2"
    }
    assert keys(location, "") == ["ab"]
    for artifact in ("/", "kbucket", "kbucket/"):
        error = failure(
            lambda artifact=artifact: harness.call(  # type: ignore[misc] # a closure of the loop
                LocationDeleteV010, {"artifact": artifact}, facts=facts
            )
        )
        assert "names no object and no folder" in error.message


# Secrets


@pytest.mark.long
def test_key_is_not_visible(app: Harness, tmp_path: Path) -> None:
    mounted(app, "head -c 150000000 /dev/urandom >/v/large")
    # A key that only this test uses, because the processes of the whole machine are searched.
    key, other, secret = (f"{letter}-of-{tmp_path.name}-{os.getpid()}" for letter in "abc")
    with running_s3(tmp_path / "own", secret=secret) as location:
        facts = facts_for(location)
        running = app.start(BackupDataV010, {**BACKUP, "encryptionKey": key}, facts=facts)
        seen = set[bytes]()
        while running.thread.is_alive():
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    seen.add(process.read_bytes())
            time.sleep(0.01)
        running.result()
        wrong = {**BACKUP, "encryptionKey": other}
        refusal = failure(lambda: app.call(BackupDataV010, wrong, facts=facts, uid="other"))
    assert any(b"restic" in data for data in seen)
    texts = json.dumps([app.log, app.pods(), refusal.message]).encode() + b"".join(seen)
    for text in (key, other, secret):
        assert text.encode() not in texts


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (3012, "2.941 KiB"),
        (5 * 2**30, "5.000 GiB"),
        (3 * 2**50, "3072.000 TiB"),
    ],
)
def test_sizes_have_restics_format(size: int, text: str) -> None:
    assert in_units(size) == text
