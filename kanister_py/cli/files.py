"""Input files of a command line, and their documents."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.core.yaml.documents import MAX_BYTES, Document, parse_documents, too_large

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
STDIN_NAME = "<stdin>"


class Input(NamedTuple):
    """A file to read. `is_named` is set if the command line names the file, not its folder."""

    name: str
    path: str | None
    is_named: bool


def find_inputs(paths: Sequence[str]) -> tuple[list[Input], list[Problem]]:
    """Find the files of paths; a path is a file, a folder with all files below it, or `-`.

    Folders whose names start with a dot are skipped. Links to folders are not followed,
    because they can form a loop.
    """
    inputs: dict[str, Input] = {}
    problems: list[Problem] = []
    for text in paths:
        if text == STDIN:
            inputs.setdefault(STDIN_NAME, Input(STDIN_NAME, None, is_named=True))
            continue
        if is_folder(text):
            before = len(problems)
            below = list(_files_below(text, problems))
            if not below and len(problems) == before:
                kinds = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
                problems.append(_problem(text, f"No {kinds} in this folder"))
            for path in below:
                inputs.setdefault(str(path), Input(str(path), str(path), is_named=False))
        else:
            inputs[text] = Input(text, text, is_named=True)
    return list(inputs.values()), problems


def is_folder(text: str) -> bool:
    return Path(text).is_dir()


def _files_below(folder: str, problems: list[Problem]) -> Iterator[Path]:
    def refused(error: OSError) -> None:
        problems.append(_problem(str(error.filename), error.strerror or str(error)))

    for parent, folders, files in os.walk(Path(folder), onerror=refused):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(parent, name)
            if name.endswith(SUFFIXES) and _may_be_document(path):
                yield path


def _may_be_document(path: Path) -> bool:
    """Return whether to read an entry of a folder: pipes, sockets and devices are skipped."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        # Such as a broken link: reading it reports the reason.
        return True


def read_input(input_: Input) -> bytes:
    """Read a file completely, unless it is too large.

    Opening a named pipe or a device can block forever, so these are refused, except for the
    paths of descriptors that a shell passes, such as /dev/fd/63.
    """
    if input_.path is None:
        return _read_at_most(sys.stdin.buffer, input_.name)
    try:
        if not stat.S_ISREG(Path(input_.path).stat().st_mode) and not _is_passed_descriptor(
            input_.path
        ):
            raise InvalidDocument([_problem(input_.name, "Not a regular file; use - for stdin")])
        with Path(input_.path).open("rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size > MAX_BYTES:
                raise too_large(input_.name)
            return _read_at_most(file, input_.name)
    except OSError as error:
        raise InvalidDocument([_problem(input_.name, error.strerror or str(error))]) from None


def read_all(paths: Sequence[str]) -> tuple[list[Input], dict[str, bytes], list[Problem]]:
    """Read the files of paths; return the files, their texts, and the problems."""
    inputs, problems = find_inputs(paths)
    texts = {}
    for input_ in inputs:
        try:
            texts[input_.name] = read_input(input_)
        except InvalidDocument as error:
            problems += error.problems
    return inputs, texts, problems


def documents_by_file(paths: Sequence[str]) -> dict[str, list[Document]]:
    """Read the documents of the files of paths; raise one error with all problems."""
    _, texts, problems = read_all(paths)
    documents = {}
    for name, text in texts.items():
        try:
            documents[name] = parse_documents(text, name)
        except InvalidDocument as error:
            problems += error.problems
    if problems:
        raise InvalidDocument(problems)
    return documents


def _is_passed_descriptor(path: str) -> bool:
    return path in (os.devnull, "/dev/stdin") or path.rpartition("/")[0] in _DESCRIPTORS


_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")


def _read_at_most(stream: object, name: str) -> bytes:
    data: bytes = stream.read(MAX_BYTES + 1)  # type: ignore[attr-defined]  # any binary stream
    if len(data) > MAX_BYTES:
        raise too_large(name)
    return data


def _problem(file: str, message: str) -> Problem:
    return Problem(file, 0, 0, "", message, "FileUnreadable")


def refusal(
    file: str | Path, message: str, path: str = "", reason: str = InvalidDocument.reason
) -> InvalidDocument:
    """Return the error for a file, or for a path in it."""
    return InvalidDocument([Problem(str(file), 0, 0, path, message, reason)])
