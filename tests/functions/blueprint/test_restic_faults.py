"""Restic v0.1.0 on a store that fails for a while: what is backed up comes back whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kanister_py.core.objects.locations import Location, StoreKind
from kanister_py.functions.blueprint.copy_volume_data.v0_1_0 import CopyVolumeDataV010
from kanister_py.functions.blueprint.restore_data.v0_1_0 import RestoreDataV010
from tests.functions.blueprint.conftest import World
from tests.functions.blueprint.data import claim, facts_for, keys, mounted
from tests.functions.blueprint.test_keyed_data import restic
from tests.stores import Faults, faulty, running_store

pytestmark = pytest.mark.long

INTERNAL = b"<Error><Code>InternalError</Code><Message>We failed</Message></Error>"
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>"
KEY = "a-key-nobody-sees"


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    with running_store(StoreKind.S3, tmp_path / "s3") as location:
        yield location


@pytest.mark.parametrize(
    ("method", "status", "body"),
    [
        pytest.param("GET", 503, SLOW_DOWN, id="reads are too many"),
        pytest.param("PUT", 500, INTERNAL, id="writes fail"),
        pytest.param("DELETE", 503, SLOW_DOWN, id="locks cannot be removed"),
    ],
)
def test_a_backup_and_its_restore_outlast_a_store_that_fails_for_a_while(
    world: World, location: Location, method: str, status: int, body: bytes
) -> None:
    claim(world, "data")
    mounted(world, "head -c 9000000 /dev/urandom >/v/large; cksum </v/large >/v/sum")
    common = {"namespace": "default", "encryptionKey": KEY}
    copy = {**common, "volume": "data", "dataArtifactPrefix": "repo"}
    for_backup = Faults(status, body, times=3, method=method)
    with faulty(location, for_backup) as failing:
        facts = facts_for(failing)
        done = world.call(CopyVolumeDataV010, copy, facts=facts, uid="backup")
    assert len(keys(location, "repo/snapshots/")) == 1
    restic(location, "check", "--read-data")
    mounted(world, "rm /v/large")
    restore = {
        **common,
        "backupArtifactPrefix": "repo",
        "backupIdentifier": done["backupID"],
        "volumes": {"data": done["backupRoot"]},
    }
    for_restore = Faults(status, body, times=3, method=method)
    with faulty(location, for_restore) as failing:
        world.call(RestoreDataV010, restore, facts=facts_for(failing), uid="restore")
    assert mounted(world, "cksum </v/large | cmp - /v/sum") == b""
    assert keys(location, "repo/locks/") == []
    # A restore writes its lock, and removes it.
    assert (for_backup.seen, for_restore.seen) == (3, 3)
