"""Standard streams of a command, whose readers may go away at any time."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Pipe(io.FileIO):
    """A descriptor to write to, which swallows the rest once nobody reads it any more."""

    is_unread = False

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            self.is_unread = True
            return len(memoryview(data))


def open_streams() -> None:
    """Let a command act to its end, and judge, whatever becomes of those who read it.

    Where the caller has closed a stream, nobody reads it, and nothing breaks. Where a
    reader goes away (`| head -1`) what else is written goes nowhere: a backup under way
    is worth more than its output, and the exit code stays the one of the command.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - for the whole life of the process
        elif mode == "w":
            setattr(sys, name, patient(stream))


def patient(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    pipe = _Pipe(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        # With PYTHONUNBUFFERED, everything is written at once.
        pipe if stream.write_through else io.BufferedWriter(pipe),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def is_read(stream: TextIO) -> bool:
    """Say whether a stream may still have a reader: a command that follows ends if not."""
    stream.flush()
    buffer = getattr(stream, "buffer", None)
    pipe = getattr(buffer, "raw", buffer)
    return not (isinstance(pipe, _Pipe) and pipe.is_unread)
