"""Standard streams of a command, whose readers may go away at any time."""

from __future__ import annotations

import io
import os
import sys
from typing import IO, TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Pipe(io.FileIO):
    """A file descriptor for output, which discards data once its reader has gone."""

    is_unread = False
    was_closed = False
    has_lost_output = False

    def write(self, data: ReadableBuffer, /) -> int:
        self.has_lost_output = self.was_closed
        try:
            return super().write(data)
        except BrokenPipeError:
            self.is_unread = True
            return len(memoryview(data))


def open_streams() -> None:
    """Replace the standard streams, so that a command continues when its reader goes away.

    After the reader has gone (`| head -1`), further output is discarded and the exit code
    stays that of the command: a running backup matters more than its output. A closed stdin
    is empty. A closed stdout or stderr discards its output; `has_lost_output` reports it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        was_closed = stream is None
        if was_closed:
            # Opened in the order of their descriptors, each stream gets its own one back.
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115 - open until the process ends
            _null_streams.append(stream)
        setattr(
            sys,
            name,
            discard_after_reader(stream, was_closed=was_closed) if mode == "w" else stream,
        )


_null_streams: list[IO[Any]] = []
"""Streams to /dev/null in place of closed ones, kept so that their descriptors stay open."""


def discard_after_reader(stream: io.TextIOWrapper, *, was_closed: bool = False) -> io.TextIOWrapper:
    """Return a stream to the same descriptor, which discards output without a reader."""
    pipe = _Pipe(stream.fileno(), "w", closefd=False)
    pipe.was_closed = was_closed
    return io.TextIOWrapper(
        # With PYTHONUNBUFFERED, everything is written at once.
        pipe if stream.write_through else io.BufferedWriter(pipe),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def is_read(stream: TextIO) -> bool:
    """Return whether a stream may still have a reader: a command that follows ends if not."""
    stream.flush()
    pipe = _pipe_of(stream)
    return pipe is None or not pipe.is_unread


def has_lost_output(stream: TextIO) -> bool:
    """Return whether something was written to a stream that was closed from the start."""
    pipe = _pipe_of(stream)
    return pipe is not None and pipe.has_lost_output


def _pipe_of(stream: TextIO) -> _Pipe | None:
    buffer = getattr(stream, "buffer", None)
    pipe = getattr(buffer, "raw", buffer)
    return pipe if isinstance(pipe, _Pipe) else None
