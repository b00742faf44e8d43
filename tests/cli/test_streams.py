"""Commands whose readers go away: `kanister-py … | head -1`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE_SECONDS = 180.0
BLUEPRINT = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: keep}
actions:
  keep:
    phases:
    - func: KubeTask
      name: first
      args: {namespace: default, image: i, command: [echo, begun]}
    - func: KubeTask
      name: last
      args: {namespace: default, image: i, command: [sh, -c, "echo kept > KEPT"]}
  fail:
    phases:
    - func: KubeTask
      name: first
      args: {namespace: default, image: i, command: ["false"]}
  unknown:
    phases: [{func: Nope, name: a}]
"""
XR = "{apiVersion: example.org/v1, kind: XThing, metadata: {name: one}}"
COMPOSITION = """\
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: things}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: XThing}
  mode: Pipeline
  pipeline: [{step: ready, functionRef: {name: function-auto-ready}}]
"""


@pytest.fixture
def unread() -> Iterator[int]:
    """The write end of a pipe whose read end is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "keep.yaml").write_text(BLUEPRINT.replace("KEPT", str(tmp_path / "kept")))
    (tmp_path / "xr.yaml").write_text(XR)
    (tmp_path / "composition.yaml").write_text(COMPOSITION)
    return tmp_path


def started(words: str, folder: Path, stdout: int, stderr: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kanister_py", *words.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=stdout,
        stderr=stderr,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param("run keep.yaml keep --pods processes -o yaml", 0, id="a run that goes well"),
        pytest.param("run keep.yaml fail --pods processes -o yaml", 1, id="a run that fails"),
        pytest.param("functions list -o json", 0, id="a list"),
        pytest.param("lint keep.yaml", 1, id="a judgement"),
        pytest.param("render xr.yaml composition.yaml", 0, id="a rendering"),
        pytest.param("render xr.yaml composition.yaml --watch", 0, id="what would go on for ever"),
        pytest.param("--help", 0, id="help"),
    ],
)
def test_command_without_a_reader_keeps_its_exit_code(
    words: str, code: int, unread: int, folder: Path
) -> None:
    done = started(words, folder, unread, subprocess.PIPE)
    assert done.returncode == code
    assert "Broken pipe" not in done.stderr
    assert "defect" not in done.stderr


def test_run_without_a_reader_continues_to_its_end(unread: int, folder: Path) -> None:
    words = "run keep.yaml keep --pods processes --name mine --state state -o json"
    assert started(words, folder, unread, unread).returncode == 0
    assert (folder / "kept").read_text() == "kept\n"
    again = started("run --state state --resume mine", folder, subprocess.PIPE, subprocess.PIPE)
    assert "Run mine: complete" in again.stderr
