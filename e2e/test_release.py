"""The release workflow and the other published files, as far as they can run here."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

from e2e.cluster.programs import find_actionlint
from tests.conftest import REPOSITORY

NEW_FUNCTION = REPOSITORY / "kanister_py" / "cli" / "new_function"


def test_workflows_are_valid(tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "workflows"
    shutil.copytree(REPOSITORY / ".github" / "workflows", folder)
    for template in NEW_FUNCTION.rglob("workflows/*"):
        shutil.copy(template, folder / f"function-{template.name.removesuffix('.tmpl')}")
    files = sorted(map(str, folder.iterdir()))
    assert len(files) > 1
    done = subprocess.run(
        [find_actionlint(), *files], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_krew_manifest_names_the_archive_with_its_checksum(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "GITHUB_SERVER_URL": "https://example.org",
        "GITHUB_REPOSITORY": "team/kanister-py",
    }
    command = [sys.executable, str(REPOSITORY / "deploy" / "krew"), "0.2.0", str(tmp_path)]
    subprocess.run(command, env=environment, check=True)
    manifest = yaml.safe_load((tmp_path / "kanister-py.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    archive = tmp_path / platform["uri"].rpartition("/")[2]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    script = tmp_path / platform["bin"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [script, "--version"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("kanister-py ")
