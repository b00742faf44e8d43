"""kando with real object stores."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.wiring import object_stores
from tests.faulty_stores import ALWAYS, Fault, Faults, faulty
from tests.kando.printed import location, printed
from tests.stores import BUCKET, running_store

__all__ = ["location"]

MIB = 1024 * 1024
COMMAND = [sys.executable, "-I", "-m", "kanister_py.kando"]


def kando(
    *arguments: str, location: Location, stdin: bytes = b"", **more: Any
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments, "--profile", printed(location)],
        input=stdin,
        capture_output=True,
        check=False,
        **more,
    )


@pytest.fixture(scope="module")
def s3_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s3")


@pytest.fixture(scope="module")
def s3(s3_folder: Path) -> Iterator[Location]:
    with running_store(StoreKind.S3, s3_folder) as location:
        yield location._replace(prefix="team/a")


def keys(location: Location) -> list[str]:
    return [obj.key for obj in object_stores().open(location).list("")]


def test_pushed_object_can_be_pulled_until_it_is_deleted(location: Location) -> None:
    data = os.urandom(MIB) * 21 + b"end"
    pushed = kando("location", "push", "--path", "/x/y", "-", location=location, stdin=data)
    assert (pushed.returncode, pushed.stdout, pushed.stderr) == (0, b"", b"")
    assert keys(location) == ["team/a/x/y"]
    pulled = kando("location", "pull", "--path", "x/y", "-", location=location)
    assert pulled.stdout == data
    assert kando("location", "delete", "--path", "x", location=location).returncode == 0
    assert keys(location) == []
    gone = kando("location", "pull", "--path", "x/y", "-", location=location)
    assert (gone.returncode, gone.stdout) == (69, b"")
    assert b"There is no object 'team/a/x/y'" in gone.stderr


def test_killed_push_leaves_nothing(s3: Location, s3_folder: Path) -> None:
    command = [*COMMAND, "location", "push", "-s", "cut", "-", "--profile", printed(s3)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as pushing:
        assert pushing.stdin is not None
        for _ in range(40):
            pushing.stdin.write(bytes(MIB))
        pushing.send_signal(signal.SIGTERM)
        assert pushing.wait(180) == 143
    assert keys(s3) == []
    # No invisible parts either, which would cost money.
    assert [path for path in (s3_folder / "buckets" / BUCKET).rglob("*") if path.is_file()] == []


def test_interrupted_pull_leaves_no_file(s3: Location, tmp_path: Path) -> None:
    kando("location", "push", "-s", "long", "-", location=s3, stdin=bytes(20 * MIB))
    with faulty(s3, Faults(Fault.HALF, times=1)) as cut:
        done = kando("location", "pull", "-s", "long", str(tmp_path / "out"), location=cut)
    assert done.returncode == 69
    assert done.stderr.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []
    kando("location", "delete", "-s", "long", location=s3)


@pytest.mark.long
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("size", [100, 20 * MIB], ids=["short", "long"])
def test_permanent_error_is_one_line(s3: Location, tmp_path: Path, fault: Fault, size: int) -> None:
    data, target = os.urandom(size), tmp_path / "out"
    kando("location", "push", "-s", "there", "-", location=s3, stdin=data)
    with faulty(s3, Faults(fault, times=ALWAYS, pattern="PUT|GET")) as failing:
        pushed = kando("location", "push", "-s", "new", "-", location=failing, stdin=data)
        pulled = kando("location", "pull", "-s", "there", str(target), location=failing)
    for done in (pushed, pulled):
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (69, b"", 1)
        assert b"kbucket" in done.stderr or b"has checksum" in done.stderr
        assert b"HTTPConnectionPool" not in done.stderr
    assert not list(tmp_path.iterdir())
    # An object is complete even if the response to its upload was lost.
    left = {"team/a/there": size, "team/a/new": size}
    for obj in object_stores().open(s3).list(""):
        assert left[obj.key] == obj.size
    kando("location", "delete", "-s", "there", location=s3)
    kando("location", "delete", "-s", "new", location=s3)


@pytest.mark.long
def test_memory_does_not_depend_on_the_size(s3: Location, tmp_path: Path) -> None:
    size = 256
    script = f"""
set -o pipefail
dd if=/dev/urandom bs=1M count={size} status=none | tee >(md5sum >sum) |
  "${{@}}" location push -s big - -p "$PROFILE"
"${{@}}" location pull -s big - -p "$PROFILE" | md5sum >sum2
"""
    program = (
        "import resource, sys\n"
        "from kanister_py.kando.command import main\n"
        "code = main()\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "print(peak, file=open('peak', 'a'))\n"
        "sys.exit(code)\n"
    )
    subprocess.run(
        ["bash", "-ec", script, "bash", sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PROFILE": printed(s3)},
        check=True,
    )
    assert (tmp_path / "sum").read_text() == (tmp_path / "sum2").read_text()
    peaks = list(map(int, (tmp_path / "peak").read_text().split()))
    assert len(peaks) == 2
    assert max(peaks) <= 96
    kando("location", "delete", "-s", "big", location=s3)


def test_s3_transfer_imports_no_heavy_packages(s3: Location) -> None:
    script = (
        "import sys\n"
        "from kanister_py.kando.command import main\n"
        "code = main()\n"
        "heavy = {'obstore', 'yaml', 'pydantic', 'semver', 'kanister_py.wiring'}\n"
        "print(code, *(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    for direction, data in (("push", b"x"), ("pull", b"")):
        words = ["location", direction, "-s", "light", "-", "-p", printed(s3)]
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            input=data,
            capture_output=True,
            check=True,
        )
        assert done.stderr == b"0\n"
    kando("location", "delete", "-s", "light", location=s3)


def test_kopia_profile_is_rejected_with_an_alternative(s3: Location) -> None:
    kopia = s3._replace(kind=StoreKind.KOPIA)
    done = kando("location", "push", "-s", "x", "-", location=kopia, stdin=b"x")
    assert done.returncode == 69
    assert b"use a Profile of type s3Compliant, gcs or azure" in done.stderr


def test_no_error_shows_a_secret(s3: Location) -> None:
    wrong = s3._replace(credential=s3.credential._replace(secret="wr0ng-s3cret"))
    done = kando("location", "push", "-s", "x", "-", location=wrong, stdin=b"x")
    assert done.returncode == 69
    assert b"the credential is rejected" in done.stderr
    assert b"wr0ng-s3cret" not in done.stderr


class TestChronicle:
    """Chronicles: the output of a command is stored periodically, and the newest is read."""

    @pytest.fixture
    def files(self, tmp_path: Path, s3: Location) -> list[str]:
        (tmp_path / "profile").write_text(printed(s3))
        (tmp_path / "path").write_text("log\n")
        (tmp_path / "env").mkdir()
        (tmp_path / "env" / "WORD").write_text("hello\nsecond line\n")
        return [
            "--profile-path",
            str(tmp_path / "profile"),
            "-s",
            str(tmp_path / "path"),
            "-e",
            str(tmp_path / "env"),
            "-f",
            "100ms",
        ]

    def test_newest_object_is_pulled_and_older_ones_are_deleted(
        self, files: list[str], s3: Location, tmp_path: Path
    ) -> None:
        count = tmp_path / "count"
        command = f'echo x >>{count}; echo "$WORD $(wc -l <{count})"'
        pushing = subprocess.Popen([*COMMAND, "chronicle", "push", *files, "--", command])
        try:
            newest = 0
            for _ in range(200):
                pulled = kando("chronicle", "pull", "-s", "log", "-", location=s3)
                if match := re.fullmatch(rb"hello (\d+)\n", pulled.stdout):
                    newest = int(match[1])
                if newest >= 3:
                    break
                time.sleep(0.05)
            assert newest >= 3
            assert b"replaced" not in pulled.stderr
        finally:
            pushing.terminate()
        assert pushing.wait(180) == 143
        # The manifest, the newest object, and possibly a second one stored just before the end.
        assert 2 <= len(keys(s3)) <= 3
        kando("location", "delete", "-s", "log", location=s3)

    def test_failed_command_keeps_the_previous_object(self, files: list[str], s3: Location) -> None:
        done = subprocess.run(
            [*COMMAND, "chronicle", "push", *files, "echo half; exit 3"],
            capture_output=True,
            check=False,
        )
        assert done.returncode == 69
        assert b"exit code 3" in done.stderr
        assert keys(s3) == []


def test_checksums_match_the_data(s3: Location, s3_folder: Path) -> None:
    data = os.urandom(3 * MIB)
    kando("location", "push", "-s", "plain", "-", location=s3, stdin=data)
    stored = s3_folder / "buckets" / BUCKET / "team/a/plain"
    assert hashlib.sha256(stored.read_bytes()).digest() == hashlib.sha256(data).digest()
    kando("location", "delete", "-s", "plain", location=s3)
