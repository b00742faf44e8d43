"""Calls of restic functions with an encryption key."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.wiring import object_stores
from tests.stores import running_store

KEY = "a-key-nobody-sees"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    with running_store(StoreKind.S3, tmp_path_factory.mktemp("s3")) as location:
        yield location


@pytest.fixture
def location(server: Location) -> Location:
    store = object_stores().open(server)
    store.delete(obj.key for obj in store.list(""))
    return server


def restic_environment(location: Location, repository: str = "repo") -> dict[str, str]:
    return {
        **os.environ,
        "AWS_ACCESS_KEY_ID": location.credential.id,
        "AWS_SECRET_ACCESS_KEY": location.credential.secret,
        "RESTIC_REPOSITORY": f"s3:{location.endpoint}/{location.bucket}/{repository}",
        "RESTIC_PASSWORD": KEY,
    }


def restic(location: Location, *words: str, repository: str = "repo") -> str:
    """Run restic directly on the repository."""
    env = restic_environment(location, repository)
    done = subprocess.run(["restic", *words], env=env, capture_output=True, text=True, check=True)
    return done.stdout
