"""The tree follows the style: types, lint, format and layers, as tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate


def passes(repository: Path, *command: str) -> str:
    program, *words = command
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *words],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 0, (
        f"{' '.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    )
    return done.stdout


def test_types_are_correct(repository: Path) -> None:
    passes(repository, "mypy", "--no-error-summary")


def test_linter_finds_nothing(repository: Path) -> None:
    passes(repository, "ruff", "check", "--quiet", ".")


def test_every_file_is_formatted(repository: Path) -> None:
    passes(repository, "ruff", "format", "--check", "--quiet", ".")


def test_imports_point_down(repository: Path) -> None:
    rules = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["importlinter"]
    output = passes(
        repository, "lint-imports", "--cache-dir", str(repository / ".import_linter_cache")
    )
    # A command that does nothing would pass as well.
    assert f"Contracts: {len(rules['contracts'])} kept, 0 broken." in output
