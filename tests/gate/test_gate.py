"""Is the whole tree what style asks for? Types, lint, format and layers, as tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate


def passes(repository: Path, *command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 0, (
        f"{' '.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    )


def test_types_hold_everywhere(repository: Path) -> None:
    passes(repository, "mypy", "--no-error-summary")


def test_no_rule_of_the_linter_is_broken(repository: Path) -> None:
    passes(repository, "ruff", "check", "--quiet", ".")


def test_every_file_is_formatted(repository: Path) -> None:
    passes(repository, "ruff", "format", "--check", "--quiet", ".")


def test_imports_point_down(repository: Path) -> None:
    passes(
        repository,
        "importlinter.cli",
        "lint",
        "--cache-dir",
        str(repository / ".import_linter_cache"),
    )
