"""Golden files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanister_py.testing import check_golden


def test_an_equal_result_passes(tmp_path: Path) -> None:
    file = tmp_path / "want.yaml"
    file.write_text("a: 1\nb: 'on'\n")
    check_golden({"a": 1, "b": "on"}, file)


def test_a_difference_is_shown_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "want.yaml"
    file.write_text("a: 1\nb: 2\n")
    with pytest.raises(AssertionError, match=r"(?s)-b: 2.*\+b: 3"):
        check_golden({"a": 1, "b": 3}, file)


def test_a_missing_file_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="KANISTER_PY_GOLDEN=write"):
        check_golden({"a": 1}, tmp_path / "want.yaml")


def test_the_file_is_written_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "new" / "want.yaml"
    monkeypatch.setenv("KANISTER_PY_GOLDEN", "write")
    check_golden({"a": 1}, file)
    monkeypatch.delenv("KANISTER_PY_GOLDEN")
    assert file.read_text() == "a: 1\n"
    check_golden({"a": 1}, file)
