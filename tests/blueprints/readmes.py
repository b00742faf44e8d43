"""Commands in the READMEs of the blueprints."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.conftest import CommandLine

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def place(tmp_path: Path, blueprints: Path) -> Path:
    """Working folder of a user with the blueprints."""
    shutil.copytree(blueprints, tmp_path / "blueprints")
    return tmp_path


def commands_in(readme: Path) -> list[list[str]]:
    """Return the commands in the shell blocks of a README."""
    text = "".join(_BLOCK.findall(readme.read_text()))
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def type_all(kanister: CommandLine, place: Path, name: str, *more: str) -> list[str]:
    """Run all commands of a README, with `more` options for the server."""
    outputs = []
    for first, *words in commands_in(place / "blueprints" / name / "README.md"):
        assert first == "kanister-py"
        done = kanister(*words, *(more if "--profile" in words else ()), cwd=place)
        assert done.code == 0, f"{' '.join(words)}\n{done.out}{done.err}"
        outputs.append(done.out + done.err)
    assert outputs, f"{name} says nothing to type"
    return outputs
