"""Are the oracles left out only where nobody can mistake that for a pass?"""

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


def test_a_machine_without_go_is_told_that_nothing_was_asked(repository: Path) -> None:
    done = run_without_go(repository)
    assert done.returncode == 0
    assert "SKIPPED" in done.stderr
    assert done.stdout == ""


def test_where_every_gate_must_run_a_machine_without_go_fails(repository: Path) -> None:
    done = run_without_go(repository, KANISTER_PY_EVERY_GATE="1")
    assert done.returncode == 1
    assert "SKIPPED" in done.stderr
