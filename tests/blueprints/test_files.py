"""Backup and restore of the files of a volume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kanister_py.testing import Stage
from tests.blueprints.volume_files import FILL, IN_VOLUME, LOOK

pytestmark = pytest.mark.usefixtures("mounts")

BLUEPRINT = "pvc-files/blueprint.yaml"
ACTION: dict[str, Any] = {"object": "PersistentVolumeClaim/shop/pictures"}
COUNT = 8 + 3
"""Number of output lines about all entries, followed by those about files."""


def in_volume(stage: Stage, script: str) -> tuple[str, ...]:
    ran = stage.run(IN_VOLUME, "do", options={"script": script}, **ACTION)
    assert ran.is_complete, ran.error
    return ran.log


def test_restore_has_all_files(blueprint_stage: Stage, blueprints: Path, tmp_path: Path) -> None:
    stage = blueprint_stage.use_processes(locations=tmp_path / "stores").given(
        blueprints / "pvc-files/objects.yaml"
    )
    in_volume(stage, FILL)
    before = in_volume(stage, LOOK)
    assert len(before) == COUNT
    backup = stage.run(blueprints / BLUEPRINT, "backup", profile="shop/backups", **ACTION)
    assert backup.is_complete, backup.error
    assert backup.artifacts["files"]["keyValue"]["count"] == "3"

    in_volume(stage, "echo wrong > link; rm -rf large 'a b'; echo new > later")
    assert in_volume(stage, LOOK) != before
    artifacts = backup.artifacts
    restore = stage.run(
        blueprints / BLUEPRINT, "restore", profile="shop/backups", artifacts=artifacts, **ACTION
    )
    assert restore.is_complete, restore.error
    assert in_volume(stage, LOOK) == before


def test_missing_archive_removes_no_file(
    blueprint_stage: Stage, blueprints: Path, tmp_path: Path
) -> None:
    stage = blueprint_stage.use_processes(locations=tmp_path / "stores").given(
        blueprints / "pvc-files/objects.yaml"
    )
    in_volume(stage, "echo precious > file")
    gone = {"files": {"keyValue": {"path": "files/gone.tar.gz"}}}
    restore = stage.run(
        blueprints / BLUEPRINT, "restore", profile="shop/backups", artifacts=gone, **ACTION
    )
    assert (restore.state, restore.reason) == ("failed", "CommandFailed")
    assert in_volume(stage, "cat file") == ("do/do | precious",)
