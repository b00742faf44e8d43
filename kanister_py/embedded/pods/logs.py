"""Container logs on disk, which are limited in size and can be read while they grow."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from kanister_py.ports.cluster import LogOptions, Stream

_SEGMENT_BYTES: Final = 16 * 1024 * 1024
_MAX_SEGMENTS: Final = 64
_READ_BYTES: Final = 128 * 1024
_MAX_MARKS: Final = 4096


class ContainerLog:
    """Log of one run of a container: stdout and stderr in order of arrival.

    Stored in files of 16 MiB; above 1 GiB, the oldest are deleted. If the disk is full, output is
    dropped and the container continues. Times are recorded per chunk of output, and less precisely
    for long logs.
    """

    def __init__(
        self,
        folder: Path,
        now: Callable[[], datetime],
        *,
        segment_bytes: int = _SEGMENT_BYTES,
        max_segments: int = _MAX_SEGMENTS,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._now = now
        self._segment_bytes = segment_bytes
        self._max_segments = max_segments
        self._changed = threading.Condition()
        self._fd = -1
        self._size = 0
        self._start = 0
        self._marks: list[tuple[int, datetime]] = []
        self._is_finished = False
        self._readers = 0
        self._is_removed = False
        self.lost_bytes = 0

    @property
    def size(self) -> int:
        """Number of bytes written so far."""
        return self._size

    def append(self, data: bytes) -> None:
        """Append output of the container."""
        with self._changed:
            if self._is_removed:
                return
            self._mark()
            at = 0
            while at < len(data):
                inside = self._size % self._segment_bytes
                piece = data[at : at + self._segment_bytes - inside]
                try:
                    if inside == 0 or self._fd < 0:
                        self._open_segment()
                    written = os.write(self._fd, piece)
                except OSError:
                    self.lost_bytes += len(data) - at
                    break
                self._size += written
                at += written
            self._changed.notify_all()

    def finish(self) -> None:
        """Mark the log as complete."""
        with self._changed:
            self._is_finished = True
            self._close_segment()
            self._changed.notify_all()

    def remove(self) -> None:
        """Delete the log when its last reader closes."""
        with self._changed:
            self._is_removed = True
            self._is_finished = True
            self._close_segment()
            self._changed.notify_all()
            if not self._readers:
                self._unlink()

    def read(self, options: LogOptions) -> LogReader:
        """Open a reader for the requested part of the log."""
        with self._changed:
            self._readers += 1
            start = self._start
            since = _since(options, self._now)
            if since is not None:
                start = max(start, self._offset_of(since))
            if options.tail_lines is not None:
                start = max(start, self._tail_offset(options.tail_lines))
        return LogReader(self, start, options)

    def read_piece(
        self, offset: int, size: int, *, wait: bool, is_open: Callable[[], bool]
    ) -> bytes:
        """Return data at an offset; empty at the end.

        With `wait`, the end is the end of the container.
        """
        with self._changed:
            while is_open():
                offset = max(offset, self._start)
                if offset < self._size:
                    return self._read_at(offset, size)
                if self._is_finished or not wait:
                    return b""
                self._changed.wait()
            return b""

    def time_at(self, offset: int) -> datetime | None:
        """Return the time at which the byte at an offset was written."""
        with self._changed:
            at = bisect_right(self._marks, offset, key=lambda mark: mark[0])
            return self._marks[at - 1][1] if at else None

    def release_reader(self) -> None:
        """Unregister a reader."""
        with self._changed:
            self._readers -= 1
            if self._is_removed and not self._readers:
                self._unlink()

    def wake(self) -> None:
        """Wake waiting readers so that they check whether they were closed."""
        with self._changed:
            self._changed.notify_all()

    def _read_at(self, offset: int, size: int) -> bytes:
        inside = offset % self._segment_bytes
        size = min(size, self._size - offset, self._segment_bytes - inside)
        try:
            with self._segment(offset).open("rb", buffering=0) as file:
                file.seek(inside)
                return file.read(size)
        except FileNotFoundError:
            return b""

    def _offset_of(self, since: datetime) -> int:
        for offset, time in self._marks:
            if time >= since:
                return offset
        return self._size

    def _tail_offset(self, lines: int) -> int:
        """Return the offset of the last `lines` lines, reading backwards."""
        end = self._size
        if lines <= 0 or end == self._start:
            return end
        # The final newline belongs to the last line.
        missing = lines + (self._read_at(end - 1, 1) == b"\n")
        while end > self._start:
            begin = max(
                self._start,
                end - _READ_BYTES,
                (end - 1) // self._segment_bytes * self._segment_bytes,
            )
            data = self._read_at(begin, end - begin)
            at = len(data)
            for _ in range(data.count(b"\n")):
                at = data.rfind(b"\n", 0, at)
                missing -= 1
                if not missing:
                    return begin + at + 1
            end = begin
        return self._start

    def _mark(self) -> None:
        self._marks.append((self._size, self._now()))
        if len(self._marks) > _MAX_MARKS:
            del self._marks[1::2]

    def _segment(self, offset: int) -> Path:
        return self._folder / f"{offset // self._segment_bytes:08d}"

    def _open_segment(self) -> None:
        self._close_segment()
        self._fd = os.open(
            self._segment(self._size), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        oldest = (self._size // self._segment_bytes + 1 - self._max_segments) * self._segment_bytes
        while self._start < oldest:
            self._segment(self._start).unlink(missing_ok=True)
            self._start = (self._start // self._segment_bytes + 1) * self._segment_bytes

    def _close_segment(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _unlink(self) -> None:
        # The folder of the run may have been deleted before the last reader closed.
        with suppress(FileNotFoundError):
            for segment in self._folder.iterdir():
                segment.unlink(missing_ok=True)


class LogReader(Stream):
    """Reader of a log, from an offset to the end, or following it."""

    def __init__(self, log: ContainerLog, offset: int, options: LogOptions) -> None:
        self._log = log
        self._offset = offset
        self._options = options
        self._left = options.limit_bytes
        self._is_line_start = True
        self._is_open = True
        self._closing = threading.Lock()

    def __iter__(self) -> Iterator[bytes]:
        while self._is_open and (self._left is None or self._left > 0):
            data = self._log.read_piece(
                self._offset,
                _READ_BYTES,
                wait=self._options.follow,
                is_open=lambda: self._is_open,
            )
            if not data:
                return
            at = self._offset
            self._offset += len(data)
            if self._options.timestamps:
                data = self._stamp(data, at)
            if self._left is not None:
                data = data[: self._left]
                self._left -= len(data)
            yield data

    def close(self) -> None:
        # The reader and another thread may both close: unregister only once.
        with self._closing:
            if not self._is_open:
                return
            self._is_open = False
        self._log.release_reader()
        self._log.wake()

    def _stamp(self, data: bytes, offset: int) -> bytes:
        stamped = bytearray()
        for line in data.splitlines(keepends=True) if b"\r" not in data else _lines(data):
            if self._is_line_start:
                time = self._log.time_at(offset)
                stamped += (f"{time:%Y-%m-%dT%H:%M:%S.%f}000Z " if time else "").encode()
            stamped += line
            offset += len(line)
            self._is_line_start = line.endswith(b"\n")
        return bytes(stamped)


def _lines(data: bytes) -> list[bytes]:
    pieces = data.split(b"\n")
    lines = [piece + b"\n" for piece in pieces[:-1]]
    return [*lines, pieces[-1]] if pieces[-1] else lines


def _since(options: LogOptions, now: Callable[[], datetime]) -> datetime | None:
    if options.since_seconds is not None:
        return now() - timedelta(seconds=options.since_seconds)
    if options.since_time:
        return datetime.fromisoformat(options.since_time)
    return None
