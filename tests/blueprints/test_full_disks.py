"""Full disks during a run: its state folder, and the folder that replaces a store."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kanister_py.cli.main import main

HEAD = "kind: Blueprint\nmetadata: {name: b}\nactions:\n act:\n  phases:"
MADE = """
  - func: KubeOps
    name: {name}
    args:
      operation: create
      namespace: default
      spec: "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: default}}}}"
"""
PUSH = """
  - func: KubeTask
    name: push
    args:
      namespace: default
      image: x
      command:
        - sh
        - -c
        - >-
          head -c {size} /dev/zero |
          kando location push --profile '{{{{ toJson .Profile }}}}' --path kept -
"""
OBJECTS = """
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: default}
stringData: {id: a, secret: b}
---
apiVersion: cr.kanister.io/v1alpha1
kind: Profile
metadata: {name: store, namespace: default}
location: {type: s3Compliant, bucket: backups}
credential:
  type: keyPair
  keyPair: {idField: id, secretField: secret, secret: {name: key, namespace: default}}
"""

_IN_TURNS = """
import sys
from pathlib import Path
from kanister_py.cli.main import main
folder = Path(sys.argv[1])
for size in (50_000, 180_000, 60_000):
    code = main(["run", str(folder / f"push-{size}.yaml"), *sys.argv[2:]])
    (kept,) = (each for each in (folder / "disk").rglob("*") if each.is_file())
    print(code, kept.stat().st_size)
"""

Run = Callable[..., int]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 KiB, mounted by another process and accessed through its folder in /proc."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = 'mount -t tmpfs -o size=200k none "$0" && echo mounted && exec sleep 600'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        if not holder.stdout.readline():
            pytest.skip("this machine gives no namespaces: there is no small disk")
        yield Path(f"/proc/{holder.pid}/root{folder}")
        holder.kill()


def fill(disk: Path, but: int = 0) -> Path:
    """Fill a disk except for some bytes, and return the file that occupies the space."""
    file = disk / "fill"
    with file.open("wb", buffering=0) as written, suppress(OSError):
        while True:
            written.write(bytes(4096))
    with file.open("r+b") as shortened:
        shortened.truncate(file.stat().st_size - but)
    return file


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "objects.yaml").write_text(OBJECTS)

    def call(phases: str, *words: str) -> int:
        file = tmp_path / "blueprint.yaml"
        file.write_text(HEAD + phases)
        return main(["run", str(file), "act", "-f", str(tmp_path / "objects.yaml"), *words])

    return call


@pytest.mark.parametrize("room", [0, 4096, 8192, 12288, 16384])
def test_full_state_folder_stops_the_run_without_loss(
    disk: Path, run: Run, room: int, capsys: pytest.CaptureFixture[str]
) -> None:
    state = str(disk / "state")
    assert run(MADE.format(name="before"), "--state", state, "--name", "first") == 0
    before = (disk / "state/runs/first.jsonl").read_bytes()
    filling = fill(disk, room)
    capsys.readouterr()
    phases = "".join(MADE.format(name=name) for name in ("one", "two", "three"))
    ended = run(phases, "--state", state, "--name", "second")
    assert "No space left on device" in capsys.readouterr().err or not ended
    filling.unlink()
    assert (disk / "state/runs/first.jsonl").read_bytes() == before
    assert main(["run", "--state", state, "--resume", "first"]) == 0
    capsys.readouterr()
    # A run that was started can be resumed, and otherwise its name is available.
    again = ["--resume", "second"] if (disk / "state/runs/second.jsonl").exists() else []
    if again:
        main(["run", "--state", state, *again, "-o", "json"])
        status = json.loads(capsys.readouterr().out)
        assert status["state"] in {"complete", "failed"}
    else:
        assert run(phases, "--state", state, "--name", "second") == 0
    assert run(MADE.format(name="after"), "--state", state) == 0
    kept = (disk / "state/cluster.json").read_text()
    assert all(f'"name":"{name}"' in kept for name in ("before", "after"))


def test_full_store_folder_keeps_its_objects(tmp_path: Path, run: Run) -> None:
    """One process runs everything, because its pods must see the disk too."""
    for size in (50_000, 180_000, 60_000):
        (tmp_path / f"push-{size}.yaml").write_text(HEAD + PUSH.format(size=size))
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = 'mount -t tmpfs -o size=200k none "$0" && exec "$@"'
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(disk)]
    where = ["--pods=processes", "--locations", str(disk), "--object", "Namespace/default"]
    where += ["--profile", "default/store"]
    words = ["act", "-f", str(tmp_path / "objects.yaml"), *where]
    script = [sys.executable, "-c", _IN_TURNS, str(tmp_path), *words]
    ended = subprocess.run([*alone, *script], capture_output=True, text=True, check=False)
    if "unshare" in ended.stderr:
        pytest.skip("this machine gives no namespaces: there is no small disk")
    assert ended.stdout.split("\n")[-4:-1] == ["0 50000", "1 50000", "0 60000"], ended.stderr
    assert ended.stderr.count("the store is full") >= 1
