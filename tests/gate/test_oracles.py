"""The oracles report clearly when they did not run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate


def run_without_go(repository: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, repository / "e2e" / "oracles" / "run"],
        env={"PATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_missing_go_is_reported_as_not_run(repository: Path) -> None:
    done = run_without_go(repository)
    assert done.returncode == 0
    assert "SKIPPED" in done.stderr
    assert done.stdout == ""


def test_missing_go_fails_when_every_gate_must_run(repository: Path) -> None:
    done = run_without_go(repository, KANISTER_PY_EVERY_GATE="1")
    assert done.returncode == 1
    assert "SKIPPED" in done.stderr
