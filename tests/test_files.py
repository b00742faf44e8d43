"""Whole files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanister_py.files import write_atomically

BOTH = pytest.mark.parametrize(
    "is_shared", [pytest.param(False, id="of one writer"), pytest.param(True, id="of several")]
)


@BOTH
def test_a_file_takes_the_place_of_another_with_the_mode_that_is_asked_for(
    tmp_path: Path, is_shared: bool
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    write_atomically(path, b"new", 0o664, is_shared=is_shared, is_durable=True)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o7777 == 0o664
    assert list(tmp_path.iterdir()) == [path]


@BOTH
def test_a_file_that_cannot_be_written_is_named_and_nothing_is_left_of_it(
    tmp_path: Path, is_shared: bool
) -> None:
    path = tmp_path / "state.json"
    path.mkdir()
    with pytest.raises(IsADirectoryError) as error:
        write_atomically(path, b"new", is_shared=is_shared)
    assert error.value.filename == str(path)
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_is_written_anew_even_if_it_leads_elsewhere(
    tmp_path: Path,
) -> None:
    path, elsewhere = tmp_path / "state.json", tmp_path / "elsewhere"
    elsewhere.write_bytes(b"not ours")
    (tmp_path / "state.json.new").symlink_to(elsewhere)
    write_atomically(path, b"new")
    assert (path.read_bytes(), elsewhere.read_bytes()) == (b"new", b"not ours")
    assert path.stat().st_mode & 0o7777 == 0o600
