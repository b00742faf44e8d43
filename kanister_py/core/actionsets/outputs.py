"""Parser for the log of a command that separates outputs from log text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn, TypeAlias

from kanister_py.core.errors import UsageError

MARKER: Final = b"###Phase-output###:"
MAX_OUTPUT_BYTES: Final = 512 * 1024
"""Maximum size of the outputs of one command, keys and values together."""

# JSON may need six bytes (`\u0041`) for one byte of an output.
_MAX_LINE_BYTES: Final = 6 * MAX_OUTPUT_BYTES + 64
_MAX_LOG_LINE_BYTES: Final = 64 * 1024
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Output(NamedTuple):
    """Key and value for later phases."""

    key: str
    value: str


Piece: TypeAlias = bytes | Output | UsageError
"""Part of the log, an output, or the error of an invalid output line."""


class OutputParser:
    """Parser for the log of a command that arrives in chunks of any size.

    The rest of a line after the marker is an output. Text before the marker on the same line is
    log text, which gets a newline at its end. Other log text is unchanged. At most one line of
    output is buffered. An invalid output becomes a piece, and parsing continues; the first error
    is also stored in `error`.
    """

    def __init__(self) -> None:
        self.outputs: dict[str, str] = {}
        self.error: UsageError | None = None
        self._pending = b""
        self._line: bytearray | None = None
        self._size = 0
        self._is_line_start = True

    def feed(self, chunk: bytes) -> list[Piece]:
        """Parse the next chunk, and return the log text and outputs that are complete."""
        pieces: list[Piece] = []
        data = self._pending + chunk if self._pending else chunk
        self._pending = b""
        start = 0
        while start < len(data):
            if self._line is not None:
                start = self._feed_line(data, start, pieces)
                continue
            marker = data.find(MARKER, start)
            if marker < 0:
                self._feed_log(data, start, pieces)
                break
            text = data[start:marker]
            if not (text.endswith(b"\n") if text else self._is_line_start):
                text += b"\n"
            if text:
                pieces.append(text)
            start = marker + len(MARKER)
            self._line = bytearray()
            self._is_line_start = True
        return pieces

    def finish(self) -> list[Piece]:
        """Return the pieces at the end of the log, after its last newline."""
        pieces: list[Piece] = []
        if self._line is not None:
            self._end_line(pieces)
        elif self._pending:
            pieces.append(self._pending)
        self._pending = b""
        return pieces

    def _feed_log(self, data: bytes, start: int, pieces: list[Piece]) -> None:
        """Append log text, except an end that may be the beginning of a marker."""
        end = len(data)
        for size in range(min(len(MARKER) - 1, end - start), 0, -1):
            if data.endswith(MARKER[:size]):
                end -= size
                break
        if end > start:
            pieces.append(data[start:end])
            self._is_line_start = data[end - 1] == 10
        self._pending = data[end:]

    def _feed_line(self, data: bytes, start: int, pieces: list[Piece]) -> int:
        assert self._line is not None
        newline = data.find(b"\n", start)
        end = newline if newline >= 0 else len(data)
        # Keep one byte more than allowed, to detect lines that are too long.
        room = _MAX_LINE_BYTES + 1 - len(self._line)
        self._line += data[start : min(end, start + room)]
        if newline < 0:
            return len(data)
        self._end_line(pieces)
        return newline + 1

    def _end_line(self, pieces: list[Piece]) -> None:
        assert self._line is not None
        line, self._line = bytes(self._line), None
        output = _too_large() if len(line) > _MAX_LINE_BYTES else parse_output(line)
        if isinstance(output, Output):
            size = self._size + _size(output.key, output.value)
            if output.key in self.outputs:
                size -= _size(output.key, self.outputs[output.key])
            if size > MAX_OUTPUT_BYTES:
                output = _too_large()
            else:
                self._size = size
                self.outputs[output.key] = output.value
        if not isinstance(output, Output) and self.error is None:
            self.error = output
        pieces.append(output)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Created once: `json.loads` with an option creates a decoder for every call.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def parse_output(line: bytes) -> Output | UsageError:
    """Parse the text after a marker. Returns the error if it is invalid.

    Parsing is as lenient as Go's decoder for a struct of two strings: names are matched in any
    case, missing and null members are empty, and other members are ignored.
    """
    text = line.decode("utf-8", "replace")
    try:
        data = _DECODER.decode(text)
    except RecursionError:
        return _unreadable("nested too deeply")
    except json.JSONDecodeError as error:
        return _unreadable(f"{error.msg} at character {error.pos + 1}")
    except ValueError as error:
        return _unreadable(str(error))
    if data is None:
        return Output("", "")
    if not isinstance(data, dict):
        return _unreadable(f"{_kind(data)} instead of an object with key and value")
    members = {"key": "", "value": ""}
    for name, member in data.items():
        lower = name.lower()
        if lower not in members or member is None:
            continue
        if not isinstance(member, str):
            return _unreadable(f"{lower} is {_kind(member)}, not a string")
        members[lower] = member if member.isascii() else _LONE_SURROGATE.sub("\ufffd", member)
    return Output(members["key"], members["value"])


class LogLines:
    """Splitter of a log into lines of limited length. The log arrives in chunks of any size."""

    def __init__(self, write_line: Callable[[str], None]) -> None:
        self._write_line = write_line
        self._pending = b""

    def feed(self, data: bytes) -> None:
        """Parse the next chunk, and write the lines that are complete."""
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._pass_on(line)
        if len(self._pending) > _MAX_LOG_LINE_BYTES:
            at = len(self._pending) // _MAX_LOG_LINE_BYTES * _MAX_LOG_LINE_BYTES
            self._pass_on(self._pending[:at])
            self._pending = self._pending[at:]

    def finish(self) -> None:
        """Write the text after the last newline."""
        if self._pending:
            self._pass_on(self._pending)
        self._pending = b""

    def _pass_on(self, line: bytes) -> None:
        for at in range(0, len(line) or 1, _MAX_LOG_LINE_BYTES):
            piece = line[at : at + _MAX_LOG_LINE_BYTES]
            self._write_line(piece.decode("utf-8", "replace").rstrip("\r"))


class LogTail:
    """Last lines of a log, with limited memory for logs and lines of any length."""

    def __init__(self, lines: int = 10, max_bytes: int = 16 * 1024) -> None:
        self._lines = lines
        self._max_bytes = max_bytes
        self._tail = bytearray()
        self._is_cut = False

    def feed(self, data: bytes) -> None:
        """Append the next chunk of the log."""
        self._tail += data[-self._max_bytes :]
        # Truncate rarely, so that many small chunks are not slower than a few large ones.
        if len(data) > self._max_bytes or len(self._tail) > 4 * self._max_bytes:
            self._is_cut = True
            del self._tail[: -self._max_bytes]

    def lines(self) -> tuple[str, ...]:
        """Return the last lines that are not blank, oldest first."""
        tail = bytes(self._tail[-self._max_bytes :])
        lines = tail.split(b"\n")
        if (self._is_cut or len(self._tail) > self._max_bytes) and len(lines) > 1:
            lines = lines[1:]
        texts = (line.decode("utf-8", "replace").rstrip() for line in lines if line.strip())
        return tuple(texts)[-self._lines :]

    def text(self) -> str:
        """Return the last lines as one text."""
        return "\n".join(self.lines())


def _size(key: str, value: str) -> int:
    return len(key.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace"))


def _too_large() -> UsageError:
    return UsageError(
        f"The outputs have more than {MAX_OUTPUT_BYTES // 1024} KiB: "
        "store the data elsewhere, and output its location",
        reason="OutputTooLarge",
    )


def _unreadable(why: str) -> UsageError:
    return UsageError(f"Failed to unmarshal key-value pair: {why}", reason="OutputUnreadable")


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")
