"""Input files: those that a command line names, and their documents."""

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
    """A file to read. `is_named`: the user asked for this very file, not for its folder."""

    name: str
    path: str | None
    is_named: bool


def find_inputs(paths: Sequence[str]) -> tuple[list[Input], list[Problem]]:
    """Find the files behind paths: files, folders with all that is below them, `-` for stdin.

    Folders whose names start with a dot are left alone, and no link to a folder
    is followed: it may lead back.
    """
    found: dict[str, Input] = {}
    problems: list[Problem] = []
    for text in paths:
        if text == STDIN:
            found.setdefault(STDIN_NAME, Input(STDIN_NAME, None, is_named=True))
            continue
        if is_folder(text):
            before = len(problems)
            below = list(_files_below(text, problems))
            if not below and len(problems) == before:
                kinds = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
                problems.append(_problem(text, f"No {kinds} in this folder"))
            for each in below:
                found.setdefault(str(each), Input(str(each), str(each), is_named=False))
        else:
            found[text] = Input(text, text, is_named=True)
    return list(found.values()), problems


def is_folder(text: str) -> bool:
    return Path(text).is_dir()


def _files_below(folder: str, problems: list[Problem]) -> Iterator[Path]:
    def refused(error: OSError) -> None:
        problems.append(_problem(str(error.filename), error.strerror or str(error)))

    for where, folders, files in os.walk(Path(folder), onerror=refused):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(where, name)
            if name.endswith(SUFFIXES) and _may_be_document(path):
                yield path


def _may_be_document(path: Path) -> bool:
    """Say whether to read what was found in a folder: pipes, sockets and devices are left alone."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        # A link that leads nowhere, say: reading it tells why.
        return True


def read_input(given: Input) -> bytes:
    """Read a file whole; one that is too large is refused for its size, unread.

    Opening a named pipe or a device may never come to an end, so those are refused,
    except under the names by which a shell hands over its own pipes.
    """
    if given.path is None:
        return _read_at_most(sys.stdin.buffer, given.name)
    try:
        if not stat.S_ISREG(Path(given.path).stat().st_mode) and not _is_handed_over(given.path):
            raise InvalidDocument([_problem(given.name, "Not a regular file; use - for stdin")])
        with Path(given.path).open("rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size > MAX_BYTES:
                raise too_large(given.name)
            return _read_at_most(file, given.name)
    except OSError as error:
        raise InvalidDocument([_problem(given.name, error.strerror or str(error))]) from None


def read_all(paths: Sequence[str]) -> tuple[list[Input], dict[str, bytes], list[Problem]]:
    """Read the files behind paths: which there are, what is in them, and what cannot be read."""
    inputs, problems = find_inputs(paths)
    texts = {}
    for each in inputs:
        try:
            texts[each.name] = read_input(each)
        except InvalidDocument as error:
            problems += error.problems
    return inputs, texts, problems


def documents_by_file(paths: Sequence[str]) -> dict[str, list[Document]]:
    """Read the documents of the files behind paths, or say all that is wrong with them."""
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


def _is_handed_over(path: str) -> bool:
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
    """Say what is wrong with a file as a whole, or at a path in it."""
    return InvalidDocument([Problem(str(file), 0, 0, path, message, reason)])
