"""Outputs of a command, for later phases, read out of its log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn, TypeAlias

from kanister_py.core.errors import UsageError

MARKER: Final = b"###Phase-output###:"
MAX_OUTPUT_BYTES: Final = 512 * 1024
"""The most that the outputs of one command may hold together, keys and values."""

# JSON may need six bytes (`\u0041`) for one byte of an output.
_MAX_LINE_BYTES: Final = 6 * MAX_OUTPUT_BYTES + 64
_LONGEST_LINE: Final = 64 * 1024
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Output(NamedTuple):
    """One value for later phases, under its key."""

    key: str
    value: str


Piece: TypeAlias = bytes | Output | UsageError
"""A stretch of log, an output, or why a line that should be an output is none."""


class OutputParser:
    """Parser of what a command prints: outputs apart from log, however its bytes are cut.

    A line is an output from the marker on; what stands before the marker on
    that line is log. Log comes out as it came in, in stretches of any size.
    Never holds more than one line of output. A line that is wrong becomes a
    piece, and the first one `error`; what follows is read all the same.
    """

    def __init__(self) -> None:
        self.outputs: dict[str, str] = {}
        self.error: UsageError | None = None
        self._held = b""
        self._line: bytearray | None = None
        self._size = 0
        self._is_line_start = True

    def feed(self, chunk: bytes) -> list[Piece]:
        """Take the next bytes, and give what is now known to be log or output."""
        pieces: list[Piece] = []
        data = self._held + chunk if self._held else chunk
        self._held = b""
        start = 0
        while start < len(data):
            if self._line is not None:
                start = self._feed_line(data, start, pieces)
                continue
            found = data.find(MARKER, start)
            if found < 0:
                self._feed_log(data, start, pieces)
                break
            text = data[start:found]
            if not (text.endswith(b"\n") if text else self._is_line_start):
                text += b"\n"
            if text:
                pieces.append(text)
            start = found + len(MARKER)
            self._line = bytearray()
            self._is_line_start = True
        return pieces

    def finish(self) -> list[Piece]:
        """Take what stands at the end without a newline."""
        pieces: list[Piece] = []
        if self._line is not None:
            self._end_line(pieces)
        elif self._held:
            pieces.append(self._held)
        self._held = b""
        return pieces

    def _feed_log(self, data: bytes, start: int, pieces: list[Piece]) -> None:
        """Give out log, but hold back an end that may be the beginning of a marker."""
        end = len(data)
        for size in range(min(len(MARKER) - 1, end - start), 0, -1):
            if data.endswith(MARKER[:size]):
                end -= size
                break
        if end > start:
            pieces.append(data[start:end])
            self._is_line_start = data[end - 1] == 10
        self._held = data[end:]

    def _feed_line(self, data: bytes, start: int, pieces: list[Piece]) -> int:
        assert self._line is not None
        newline = data.find(b"\n", start)
        end = newline if newline >= 0 else len(data)
        # One byte too many is kept, as the sign that the line was too long.
        room = _MAX_LINE_BYTES + 1 - len(self._line)
        self._line += data[start : min(end, start + room)]
        if newline < 0:
            return len(data)
        self._end_line(pieces)
        return newline + 1

    def _end_line(self, pieces: list[Piece]) -> None:
        assert self._line is not None
        line, self._line = bytes(self._line), None
        read = _too_large() if len(line) > _MAX_LINE_BYTES else parse_output(line)
        if isinstance(read, Output):
            size = self._size + _size(read.key, read.value)
            if read.key in self.outputs:
                size -= _size(read.key, self.outputs[read.key])
            if size > MAX_OUTPUT_BYTES:
                read = _too_large()
            else:
                self._size = size
                self.outputs[read.key] = read.value
        if not isinstance(read, Output) and self.error is None:
            self.error = read
        pieces.append(read)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Made once: `json.loads` with an option makes a decoder for every call.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def parse_output(line: bytes) -> Output | UsageError:
    """Say which output the text after a marker means.

    As lenient as Go's decoder is with a structure of two strings: members are
    found whatever their case, a missing or null one is empty, others are ignored.
    """
    text = line.decode("utf-8", "replace")
    try:
        read = _DECODER.decode(text)
    except RecursionError:
        return _unreadable("nested too deeply")
    except json.JSONDecodeError as error:
        return _unreadable(f"{error.msg} at character {error.pos + 1}")
    except ValueError as error:
        return _unreadable(str(error))
    if read is None:
        return Output("", "")
    if not isinstance(read, dict):
        return _unreadable(f"{_kind(read)} where an object with key and value is wanted")
    found = {"key": "", "value": ""}
    for name, member in read.items():
        lower = name.lower()
        if lower not in found or member is None:
            continue
        if not isinstance(member, str):
            return _unreadable(f"{lower} is {_kind(member)}, not a string")
        found[lower] = member if member.isascii() else _LONE_SURROGATE.sub("\ufffd", member)
    return Output(found["key"], found["value"])


class LogLines:
    """Cutter of a log into lines, wherever its pieces end. Lines that are too long are cut, too."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Take the next stretch of log, and hand on the lines that end in it."""
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            self._hand_on(line)
        if len(self._held) > _LONGEST_LINE:
            at = len(self._held) // _LONGEST_LINE * _LONGEST_LINE
            self._hand_on(self._held[:at])
            self._held = self._held[at:]

    def finish(self) -> None:
        """Hand on what stands at the end without a newline."""
        if self._held:
            self._hand_on(self._held)
        self._held = b""

    def _hand_on(self, line: bytes) -> None:
        for at in range(0, len(line) or 1, _LONGEST_LINE):
            piece = line[at : at + _LONGEST_LINE]
            self._take(piece.decode("utf-8", "replace").rstrip("\r"))


class LogTail:
    """The last lines of a log, bounded however long it and its lines are."""

    def __init__(self, lines: int = 10, max_bytes: int = 16 * 1024) -> None:
        self._lines = lines
        self._max_bytes = max_bytes
        self._kept = bytearray()
        self._is_cut = False

    def feed(self, data: bytes) -> None:
        """Take the next stretch of log."""
        self._kept += data[-self._max_bytes :]
        # Cut late, so that many small stretches cost no more than a few large ones.
        if len(data) > self._max_bytes or len(self._kept) > 4 * self._max_bytes:
            self._is_cut = True
            del self._kept[: -self._max_bytes]

    def lines(self) -> tuple[str, ...]:
        """Give the last lines that hold anything, the oldest first."""
        kept = bytes(self._kept[-self._max_bytes :])
        lines = kept.split(b"\n")
        if (self._is_cut or len(self._kept) > self._max_bytes) and len(lines) > 1:
            lines = lines[1:]
        texts = (line.decode("utf-8", "replace").rstrip() for line in lines if line.strip())
        return tuple(texts)[-self._lines :]

    def text(self) -> str:
        """Give the last lines as one text."""
        return "\n".join(self.lines())


def _size(key: str, value: str) -> int:
    return len(key.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace"))


def _too_large() -> UsageError:
    return UsageError(
        f"Outputs hold more than {MAX_OUTPUT_BYTES // 1024} KiB: "
        "keep the data elsewhere, and make its place the output",
        reason="OutputTooLarge",
    )


def _unreadable(why: str) -> UsageError:
    return UsageError(f"Failed to unmarshal key-value pair: {why}", reason="OutputUnreadable")


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")
