"""The commands of the tutorials work in the order in which they are written."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blueprints.servers import folder_for, program, unprivileged
from tests.conftest import REPOSITORY
from tests.ports import free_port

_BLOCK = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)


def script_of(page: str) -> str:
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    return "set -euo pipefail\n" + "\n".join(_BLOCK.findall(text))


def _server_programs(folder: Path, user: str | None) -> Path:
    """Return a folder with the server programs; they run as `user` if it is given."""
    shown = subprocess.run(
        [program("pg_config", "postgresql-common"), "--bindir"],
        capture_output=True,
        text=True,
        check=True,
    )
    programs = Path(shown.stdout.strip())
    folder.mkdir()
    for name in ("initdb", "pg_ctl"):
        program(name, "postgresql", str(programs))
        prefix = ["setpriv", f"--reuid={user}", "--clear-groups"] if user else []
        command = shlex.join([*prefix, str(programs / name)])
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that a server without root's rights can reach."""
    with folder_for(unprivileged("postgres")) as folder:
        yield folder


def test_laptop_tutorial_restores_the_lost_table(folder: Path) -> None:
    user = unprivileged("postgres")
    programs = _server_programs(folder / "bin", user)
    clone = folder / "clone"
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "activate").write_text("")
    shutil.copytree(REPOSITORY / "blueprints", clone / "blueprints")
    (clone / "tutorial").mkdir()
    if user:
        shutil.chown(clone / "tutorial", user)
    scripts = Path(sys.executable).parent
    script = script_of("tutorial-laptop.md").replace("5477", str(free_port()))
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=clone,
        env={**os.environ, "PATH": f"{programs}:{scripts}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DROP TABLE\n1000\n" in done.stdout
    assert not (clone / "tutorial").exists()
