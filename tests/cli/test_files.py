from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kanister_py.cli.files import find_inputs, read_input
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.yaml.documents import MAX_BYTES


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Read files as an unprivileged user, because root can read everything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


class TestPaths:
    def test_folders_yield_all_yaml_and_json_files_in_order(self, tmp_path: Path) -> None:
        for name in ("b.yml", "a/z.yaml", "a/x.json", "a/notes.txt", ".git/c.yaml", "a.yaml"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("a: 1\n")
        inputs, problems = find_inputs([str(tmp_path)])
        names = [os.path.relpath(file.name, tmp_path) for file in inputs]
        assert names == ["a.yaml", "b.yml", "a/x.json", "a/z.yaml"]
        assert not any(file.is_named for file in inputs)
        assert problems == []

    def test_files_named_twice_are_read_once(self, tmp_path: Path) -> None:
        file = tmp_path / "a.yaml"
        file.write_text("a: 1\n")
        inputs, _ = find_inputs([str(file), str(tmp_path), "-", "-"])
        assert [file.name for file in inputs] == [str(file), "<stdin>"]
        assert inputs[0].is_named

    def test_loops_of_links_end(self, tmp_path: Path) -> None:
        (tmp_path / "again").symlink_to(tmp_path)
        (tmp_path / "a.yaml").write_text("a: 1\n")
        inputs, _ = find_inputs([str(tmp_path)])
        assert len(inputs) == 1

    def test_empty_folder_is_a_problem(self, tmp_path: Path) -> None:
        _, (problem,) = find_inputs([str(tmp_path)])
        assert "No *.yaml" in problem.message

    def test_pipes_in_folders_are_skipped(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.yaml")
        (tmp_path / "a.yaml").write_text("a: 1\n")
        inputs, problems = find_inputs([str(tmp_path)])
        assert [file.path for file in inputs] == [str(tmp_path / "a.yaml")]
        assert problems == []

    def test_unreadable_folder_is_one_problem(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0)
        tmp_path.chmod(0o755)
        monkeypatch.chdir(tmp_path)
        with as_ordinary_user():
            _, (problem,) = find_inputs(["closed"])
        assert problem.file == "closed"
        assert "No *.yaml" not in problem.message


class TestAFile:
    def test_too_large_file_is_refused_unread(self, tmp_path: Path) -> None:
        file = tmp_path / "large.yaml"
        with file.open("wb") as hole:
            hole.truncate(MAX_BYTES + 1)
        with pytest.raises(InvalidDocument, match="Larger than 4 MiB"):
            read_input(find_inputs([str(file)])[0][0])

    def test_device_is_refused(self) -> None:
        with pytest.raises(InvalidDocument, match="Not a regular file"):
            read_input(find_inputs(["/dev/zero"])[0][0])

    def test_named_pipe_is_refused_without_waiting(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.yaml")
        with pytest.raises(InvalidDocument, match="Not a regular file"):
            read_input(find_inputs([str(tmp_path / "pipe.yaml")])[0][0])

    def test_pipe_of_a_shell_is_read(self) -> None:
        reading, writing = os.pipe()
        try:
            os.write(writing, b"a: 1\n")
            os.close(writing)
            assert read_input(find_inputs([f"/dev/fd/{reading}"])[0][0]) == b"a: 1\n"
        finally:
            os.close(reading)

    def test_endless_pipe_is_refused(self) -> None:
        with (
            Path("/dev/zero").open("rb") as endless,
            pytest.raises(InvalidDocument, match="Larger than 4 MiB"),
        ):
            read_input(find_inputs([f"/dev/fd/{endless.fileno()}"])[0][0])

    def test_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidDocument) as refused:
            read_input(find_inputs([str(tmp_path / "no.yaml")])[0][0])
        assert refused.value.problems[0].file == str(tmp_path / "no.yaml")
