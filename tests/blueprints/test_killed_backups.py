"""A backup whose process is killed exists exactly once after the run was resumed."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.kube.locations import Location
from kanister_py.wiring import object_stores
from tests.blueprints.restic_repository import CLAIM, MEBIBYTES, location, restic, words

__all__ = ["location", "words"]

pytestmark = [pytest.mark.usefixtures("mounts"), pytest.mark.long]


def has_keys(location: Location, prefix: str, count: int = 1) -> bool:
    store = object_stores().open(location)
    return sum(1 for _ in store.list(f"restic/shop/{prefix}")) >= count


MOMENTS = {
    "the repository was made": lambda location: has_keys(location, "config"),
    "some data is there": lambda location: has_keys(location, "data/", 3),
    "the snapshot is there": lambda location: has_keys(location, "snapshots/"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_backup_exists_once_after_resuming(
    words: list[str], location: Location, blueprints: Path, moment: str
) -> None:
    begin = [
        *words,
        str(blueprints / "pvc-restic" / "blueprint.yaml"),
        "backup",
        "--name",
        "monday",
        "--object",
        CLAIM,
        "--profile",
        "shop/backups",
    ]
    with subprocess.Popen(begin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        for _ in range(3000):
            if MOMENTS[moment](location) or run.poll() is not None:
                break
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
    resumed = subprocess.run([*words, "--resume", "monday"], capture_output=True, check=False)
    assert resumed.returncode == 0, resumed.stderr
    status: Mapping[str, Any] = json.loads(resumed.stdout)
    (phase,) = status["actions"][0]["phases"]
    assert phase["output"]["size"] == f"{MEBIBYTES}.000 MiB"
    assert len(json.loads(restic(location, "snapshots", "--json"))) == 1
    restic(location, "check", "--read-data")
