"""Atomic writes of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanister_py.files import write_atomically

BOTH = pytest.mark.parametrize(
    "is_shared", [pytest.param(False, id="of one writer"), pytest.param(True, id="of several")]
)


@BOTH
def test_file_is_replaced_with_the_given_mode(tmp_path: Path, is_shared: bool) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    write_atomically(path, b"new", 0o664, is_shared=is_shared, is_durable=True)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o7777 == 0o664
    assert list(tmp_path.iterdir()) == [path]


@BOTH
def test_failed_write_names_the_file_and_leaves_nothing_behind(
    tmp_path: Path, is_shared: bool
) -> None:
    path = tmp_path / "state.json"
    path.mkdir()
    with pytest.raises(IsADirectoryError) as error:
        write_atomically(path, b"new", is_shared=is_shared)
    assert error.value.filename == str(path)
    assert list(tmp_path.iterdir()) == [path]


def test_temporary_file_of_a_killed_writer_is_replaced_even_if_it_is_a_link(
    tmp_path: Path,
) -> None:
    path, elsewhere = tmp_path / "state.json", tmp_path / "elsewhere"
    elsewhere.write_bytes(b"not ours")
    (tmp_path / "state.json.new").symlink_to(elsewhere)
    write_atomically(path, b"new")
    assert (path.read_bytes(), elsewhere.read_bytes()) == (b"new", b"not ours")
    assert path.stat().st_mode & 0o7777 == 0o600
