from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.wiring import object_stores
from tests.conftest import CommandLine
from tests.stores import running_store

# Writes more than one part, then waits for a chunk that never arrives.
PUSH = """\
import sys
from kanister_py.core.kube.locations import Credential, Location, StoreKind
from kanister_py.wiring import object_stores

bucket, endpoint, region, identity, secret = sys.argv[1:]

def chunks():
    for _ in range(20):
        yield bytes(1 << 20)
    print("begun", flush=True)
    sys.stdin.read()

location = Location(StoreKind.S3, bucket, endpoint, region, credential=Credential(identity, secret))
object_stores().open(location).put("dumps/cut", chunks())
"""


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    with running_store(StoreKind.S3, tmp_path_factory.mktemp("s3")) as location:
        yield location


@pytest.fixture
def profile(kanister: CommandLine, location: Location, tmp_path: Path) -> Path:
    creation = kanister(
        "profile",
        "create",
        "s3",
        "store",
        "--bucket",
        location.bucket,
        "--endpoint",
        location.endpoint,
        "--region",
        location.region,
        "--access-key",
        location.credential.id,
        "--secret-key",
        location.credential.secret,
    )
    assert creation.code == 0, creation.err
    path = tmp_path / "profile.yaml"
    path.write_text(creation.out)
    return path


def test_objects_are_listed(kanister: CommandLine, profile: Path, location: Location) -> None:
    object_stores().open(location).put("team/a", [b"hello"])
    done = kanister("location", "ls", "-f", str(profile), "-o", "json")
    assert done.code == 0, done.err
    (listed,) = json.loads(done.out)["objects"]
    assert (listed["key"], listed["size"]) == ("team/a", 5)


def test_unfinished_uploads_are_listed(
    kanister: CommandLine, profile: Path, location: Location
) -> None:
    words = [sys.executable, "-c", PUSH, *location[1:4], *location.credential[:2]]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pushing:
        assert pushing.stdout is not None
        assert pushing.stdout.readline() == b"begun\n"
        pushing.kill()
    store = object_stores().open(location)
    assert [obj.key for obj in store.list("dumps/")] == []
    words = ["location", "ls", "-f", str(profile), "--unfinished"]
    done = kanister(*words, "--path", "dumps", "-o", "json")
    assert done.code == 0, done.err
    (upload,) = json.loads(done.out)["uploads"]
    assert upload["key"] == "dumps/cut"
    table = kanister(*words)
    assert table.out.splitlines()[0].split() == ["STARTED", "KEY"]
    assert upload["started"] in table.out
    assert json.loads(kanister(*words, "--path", "other", "-o", "json").out) == {"uploads": []}
