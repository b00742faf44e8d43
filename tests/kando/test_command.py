"""kando with a folder instead of buckets, run as in a pod."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.actionsets.outputs import MARKER, Output, parse_output

PROFILE = {
    "Location": {"type": "s3Compliant", "bucket": "backups", "endpoint": "", "prefix": "/team/a/"},
    "Credential": {"Type": "keyPair", "KeyPair": {"ID": "id", "Secret": "secret"}},
    "SkipSSLVerify": False,
}


class Kando:
    """Runs kando as a separate process."""

    def __init__(self, folder: Path) -> None:
        self.locations = folder / "locations"
        self.bucket = self.locations / "s3Compliant" / "backups"

    def run(
        self, *arguments: str, stdin: bytes = b"", profile: Any = PROFILE, stands_in: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-I", "-m", "kanister_py.kando", *arguments]
        if arguments[:1] == ("location",):
            command += ["--profile", json.dumps(profile)]
        env = {"KANDO_LOCATIONS": str(self.locations)} if stands_in else {}
        return subprocess.run(command, input=stdin, capture_output=True, check=False, env=env)


@pytest.fixture
def program(tmp_path: Path) -> Kando:
    return Kando(tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("plain", id="plain text"),
        pytest.param("", id="nothing"),
        pytest.param('two\nlines "quoted" \\ ünïcode <&>', id="everything that needs care"),
        pytest.param("--value", id="looks like a flag, after two dashes"),
    ],
)
def test_output_is_read_back_unchanged(program: Kando, value: str) -> None:
    done = program.run("output", "--", "my_Key1", value)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(MARKER + b" {")
    assert parse_output(done.stdout.removeprefix(MARKER)) == Output("my_Key1", value)
    assert done.stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/dumps/one.gz", id="with a slash before it"),
        pytest.param("dumps/one.gz", id="without"),
    ],
)
def test_pushed_object_can_be_pulled_until_it_is_deleted(program: Kando, path: str) -> None:
    data = bytes(range(256)) * 9000
    pushed = program.run("location", "push", "--path", path, "-", stdin=data)
    assert (pushed.returncode, pushed.stdout, pushed.stderr) == (0, b"", b"")
    assert (program.bucket / "team/a/dumps/one.gz").read_bytes() == data
    assert program.run("location", "pull", "-s", path, "-").stdout == data
    assert program.run("location", "delete", f"--path={path}").returncode == 0
    assert list(program.bucket.iterdir()) == []
    gone = program.run("location", "pull", "--path", path, "-")
    assert gone.returncode == 69
    assert b"There is no" in gone.stderr


def test_file_is_pushed_and_pulled_by_name(program: Kando, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"data")
    assert program.run("location", "push", str(tmp_path / "in"), "--path", "x").returncode == 0
    out = str(tmp_path / "new" / "out")
    assert program.run("location", "pull", "--path", "x", out).returncode == 0
    assert Path(out).read_bytes() == b"data"


def test_file_is_pushed_from_standard_input(program: Kando, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"data")
    words = ["location", "push", "--path", "x", "-"]
    command = [sys.executable, "-I", "-m", "kanister_py.kando", *words]
    env = {"KANDO_LOCATIONS": str(program.locations)}
    with (tmp_path / "in").open("rb") as stdin:
        profile = ["--profile", json.dumps(PROFILE)]
        pushed = subprocess.run([*command, *profile], stdin=stdin, check=False, env=env)
    assert pushed.returncode == 0
    assert program.run("location", "pull", "--path", "x", "-").stdout == b"data"


def test_push_without_input_fails(program: Kando) -> None:
    words = ["location", "push", "--path", "x", "-", "--profile", json.dumps(PROFILE)]
    done = subprocess.run(
        [sys.executable, "-I", "-m", "kanister_py.kando", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env={"KANDO_LOCATIONS": str(program.locations)},
    )
    assert done.returncode != 0
    assert b"name a file, or use a pipe" in done.stderr


def test_delete_removes_only_objects_with_the_prefix(program: Kando) -> None:
    for path in ("dump", "dump.md5", "dump/part", "other"):
        name = f"kept/{path}" if path == "other" else path.replace("dump/", "dump.d/")
        assert program.run("location", "push", "--path", name, "-", stdin=b"x").returncode == 0
    assert program.run("location", "delete", "--path", "dump").returncode == 0
    left = [path.name for path in program.bucket.rglob("*") if path.is_file()]
    assert left == ["other"]
    assert program.run("location", "delete", "--path", "dump").returncode == 0


def test_failed_push_keeps_the_previous_object(program: Kando, tmp_path: Path) -> None:
    program.run("location", "push", "--path", "x", "-", stdin=b"old")
    broken = program.run("location", "push", "--path", "x", str(tmp_path))
    assert broken.returncode == 69
    (folder,) = [path.parent for path in program.bucket.rglob("x")]
    assert [path.name for path in folder.iterdir()] == ["x"]
    assert (folder / "x").read_bytes() == b"old"


def test_push_to_kopia_returns_a_snapshot_for_pull_and_delete(program: Kando) -> None:
    profile = {"Location": {"type": "kopia", "bucket": "b"}}
    first = program.run(
        "location", "push", "--path", "p", "-o", "snap", "-", stdin=b"one", profile=profile
    )
    output = parse_output(first.stdout.removeprefix(MARKER))
    assert isinstance(output, Output)
    assert output.key == "snap"
    snapshot = json.loads(output.value)
    assert (snapshot["logicalSize"], snapshot["physicalSize"]) == (3, 3)
    program.run("location", "push", "--path", "p", "-", stdin=b"two", profile=profile)
    same = ("--path", "p", "--kopia-snapshot", output.value)
    assert program.run("location", "pull", *same, "-", profile=profile).stdout == b"one"
    assert program.run("location", "delete", *same, profile=profile).returncode == 0
    assert program.run("location", "pull", *same, "-", profile=profile).returncode == 69
    without = program.run("location", "pull", "--path", "p", "-", profile=profile)
    assert (without.returncode, b"--kopia-snapshot" in without.stderr) == (69, True)


@pytest.mark.parametrize(
    ("stands_in", "written", "untouched"),
    [
        pytest.param(False, "{}/store/b/x", "locations", id="which is written to"),
        pytest.param(
            True, "{0}/locations/file{0}/store/b/x", "store", id="and another one stands in for it"
        ),
    ],
)
def test_a_location_may_be_a_folder_itself(
    program: Kando, tmp_path: Path, stands_in: bool, written: str, untouched: str
) -> None:
    location = {"type": "filestore", "endpoint": f"file://{tmp_path}/store", "bucket": "b"}
    done = program.run(
        "location",
        "push",
        "--path",
        "x",
        "-",
        stdin=b"1",
        profile={"Location": location},
        stands_in=stands_in,
    )
    assert done.returncode == 0
    assert Path(written.format(tmp_path)).read_bytes() == b"1"
    assert not (tmp_path / untouched).exists()


@pytest.mark.parametrize(
    ("arguments", "sense"),
    [
        pytest.param(["output", "a-b", "v"], b"letters, digits", id="a key with a dash"),
        pytest.param(["output", "k\n", "v"], b"letters, digits", id="a key with a newline"),
        pytest.param(["output", "k"], b"takes 2", id="no value"),
        pytest.param(["output", "k", "v", "--path", "x"], b"unknown flag", id="a strange flag"),
        pytest.param(["output", "-x", "v"], b"unknown flag: -x", id="an unknown flag"),
        pytest.param(["location", "push", "-"], b'"path" not set', id="no path"),
        pytest.param(["location", "push", "-", "--path"], b"is not JSON", id="a flag eats a flag"),
        pytest.param(["location", "push", "-", "-s", ""], b"--path is empty", id="an empty path"),
        pytest.param(["location", "delete", "-s", "/"], b"--path is empty", id="delete it all"),
        pytest.param(["location", "pull", "-", "-s", "a/../../b"], b"leads out", id="dots"),
        pytest.param(["location", "pull", "-", "-s", "none"], b"There is no", id="no object"),
        pytest.param(["stream", "push", "x"], b"needs kopia", id="a command that needs kopia"),
        pytest.param(["process", "server"], b"is not supported", id="a command of the other"),
        pytest.param(["location", "copy"], b"unknown command", id="an unknown command"),
    ],
)
def test_errors_are_one_line_with_exit_code_69(
    program: Kando, arguments: list[str], sense: bytes
) -> None:
    profile: Any = PROFILE
    if arguments[-1] == "--path":
        arguments, profile = [*arguments, "x", "-p", "{"], PROFILE
        arguments = ["location", "push", "-", "-s", "x"]
        profile = None
        sense = b"has no location"
    done = program.run(*arguments, profile=profile, stdin=b"")
    assert done.returncode == 69
    assert sense in done.stderr
    assert done.stderr.startswith(b"Error: ")
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""


@pytest.mark.parametrize(
    ("location", "sense"),
    [
        pytest.param({"type": "ftp", "bucket": "b"}, b"'ftp' is not supported", id="unknown type"),
        pytest.param({"type": "gcs"}, b"bucket is empty", id="no bucket"),
        pytest.param({"type": "gcs", "bucket": "../x"}, b"leads out", id="a bucket outside"),
        pytest.param({"type": "file", "endpoint": "s3://x"}, b"must be a folder", id="no folder"),
    ],
)
def test_invalid_location_is_rejected(
    program: Kando, location: dict[str, str], sense: bytes
) -> None:
    done = program.run(
        "location",
        "pull",
        "-",
        "--path",
        "x",
        profile={"Location": location},
        stands_in=location["type"] != "file",
    )
    assert (done.returncode, sense in done.stderr) == (69, True)


def test_help_mentions_the_folder_for_locations(program: Kando) -> None:
    for arguments in ([], ["--help"], ["location", "push", "-h"]):
        done = subprocess.run(
            [sys.executable, "-I", "-m", "kanister_py.kando", *arguments],
            capture_output=True,
            check=True,
        )
        assert b"replaces every bucket" in done.stdout
