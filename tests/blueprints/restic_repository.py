"""A restic repository of tests, and its key."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.core.yaml.documents import dump_yaml
from tests.blueprints.volume_files import IN_VOLUME
from tests.stores import running_store

CLAIM = "PersistentVolumeClaim/shop/pictures"


KEY = "change-me-and-never-lose-me"


MEBIBYTES = 150


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    with running_store(StoreKind.S3, tmp_path / "s3") as location:
        yield location


@pytest.fixture
def words(tmp_path: Path, location: Location, blueprints: Path) -> list[str]:
    """Command line of the backup; the volume is filled first."""
    text = (blueprints / "pvc-restic" / "objects.yaml").read_text()
    credential = location.credential
    text = text.replace("id: change-me", f"id: {credential.id}")
    text = text.replace("secret: change-me", f"secret: {credential.secret}")
    text = text.replace("bucket: backups", f"bucket: {location.bucket}")
    text = text.replace("https://s3.example.com", location.endpoint)
    text = text.replace("eu-central-1", location.region)
    (tmp_path / "objects.yaml").write_text(text)
    words = [
        sys.executable,
        "-m",
        "kanister_py",
        "run",
        "--state",
        str(tmp_path / "state"),
        "--pods",
        "processes",
        "-o",
        "json",
    ]
    (tmp_path / "fill.yaml").write_text(dump_yaml(IN_VOLUME))
    script = f"head -c {MEBIBYTES}M /dev/urandom >large"
    fill = [*words, str(tmp_path / "fill.yaml"), "do", "-f", str(tmp_path / "objects.yaml")]
    fill += ["--object", CLAIM, "--option", f"script={script}"]
    subprocess.run(fill, check=True, capture_output=True)
    return words


def restic(location: Location, *words: str, namespace: str = "shop") -> str:
    """Run restic on the repository of the blueprint, and return its output."""
    env = {
        "AWS_ACCESS_KEY_ID": location.credential.id,
        "AWS_SECRET_ACCESS_KEY": location.credential.secret,
        "RESTIC_REPOSITORY": f"s3:{location.endpoint}/{location.bucket}/restic/{namespace}",
        "RESTIC_PASSWORD": KEY,
    }
    done = subprocess.run(
        ["restic", *words], env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    return done.stdout
