"""Notes of the test run itself."""

from __future__ import annotations

from tests.conftest import skipped_for_lack_of_what


def test_one_line_lists_what_was_skipped_and_for_lack_of_what() -> None:
    reasons = ["patch is not installed", "no Redis:\napt-get", "Skipped: patch is not installed"]
    assert skipped_for_lack_of_what(reasons) == (
        "Skipped 3 tests, 1: no Redis:; 2: patch is not installed"
    )
