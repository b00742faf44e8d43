"""Does the table of measures show what failed, and still everything else?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.measure import Row, print_table, rows_of


def test_a_measure_that_fails_is_a_row_and_all_others_are_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun = Row("bursts begun", "3", "for reading")
    memory = Row("memory", "1.10", "<= 1.25", holds=True)

    def bursts() -> Iterator[Row]:
        yield begun
        error = AssertionError("381 never came to be complete")
        error.add_note("the controller ended with 75")
        raise error

    found = rows_of({"_bursts": bursts, "_memory": lambda: [memory]})
    failed = Row("bursts", "381 never came to be complete", "an end", holds=False)
    assert found == [begun, failed, memory]
    assert not print_table("Growth", found)
    assert "the controller ended with 75" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["controller", "composites", "schedules"])
def test_a_bench_whose_programs_are_missing_says_so_and_fails(name: str, tmp_path: Path) -> None:
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
