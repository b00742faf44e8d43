"""Tables of benchmarks contain failures next to all other rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.measure import Row, print_table, rows_of


def test_a_failed_measure_is_a_row_and_the_others_are_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    started = Row("bursts started", "3", "for reading")
    memory = Row("memory", "1.10", "<= 1.25", holds=True)

    def bursts() -> Iterator[Row]:
        yield started
        error = AssertionError("381 never came to be complete")
        error.add_note("the controller ended with 75")
        raise error

    rows = rows_of({"_bursts": bursts, "_memory": lambda: [memory]})
    failed = Row("bursts", "381 never came to be complete", "no error", holds=False)
    assert rows == [started, failed, memory]
    assert not print_table("Growth", rows)
    assert "the controller ended with 75" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["controller", "composites", "schedules"])
def test_a_benchmark_with_missing_programs_reports_that_and_fails(
    name: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", name],
        env={"PATH": "", "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "MISS" in done.stdout
    assert "Go" in done.stdout
