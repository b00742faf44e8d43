"""Summary of the test run."""

from __future__ import annotations

from tests.conftest import summary_of_skipped


def test_summary_counts_skipped_tests_by_reason() -> None:
    reasons = ["patch is not installed", "no Redis:\napt-get", "Skipped: patch is not installed"]
    assert summary_of_skipped(reasons) == (
        "Skipped 3 tests, 1: no Redis:; 2: patch is not installed"
    )
