"""Container logs on disk."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kanister_py.embedded.pods.logs import ContainerLog
from kanister_py.ports.cluster import LogOptions

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Ticks:
    """Clock that advances by a second with each call."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def log_with(folder: Path, *pieces: bytes, segment_bytes: int = 16) -> ContainerLog:
    log = ContainerLog(folder, Ticks(), segment_bytes=segment_bytes, max_segments=3)
    for piece in pieces:
        log.append(piece)
    log.finish()
    return log


def read(log: ContainerLog, options: LogOptions) -> bytes:
    with log.read(options) as stream:
        return b"".join(stream)


@pytest.mark.parametrize("lines", range(8))
def test_the_last_lines_are_found_across_files(tmp_path: Path, lines: int) -> None:
    written = [b"one\n", b"two\n", b"\n", b"a longer line\n", b"five\n", b"six"]
    log = log_with(tmp_path, *written)
    want = b"".join(written[-lines:]) if lines else b""
    assert read(log, LogOptions(tail_lines=lines)) == want


def test_a_log_is_read_since_a_time(tmp_path: Path) -> None:
    log = log_with(tmp_path, b"1\n", b"2\n", b"3\n")
    assert read(log, LogOptions(since_time="2026-01-02T03:04:07Z")) == b"2\n3\n"
    assert read(log, LogOptions(since_time="2999-01-01T00:00:00Z")) == b""


def test_lines_have_timestamps_on_request(tmp_path: Path) -> None:
    log = log_with(tmp_path, b"1\n2\n", b"3\n")
    assert read(log, LogOptions(timestamps=True)) == (
        b"2026-01-02T03:04:06.000000000Z 1\n"
        b"2026-01-02T03:04:06.000000000Z 2\n"
        b"2026-01-02T03:04:07.000000000Z 3\n"
    )


def test_a_large_log_keeps_its_newest_part(tmp_path: Path) -> None:
    log = log_with(tmp_path, *(b"line %d\n" % number for number in range(100)))
    kept = read(log, LogOptions())
    assert kept.endswith(b"line 98\nline 99\n")
    assert len(kept) <= 3 * 16
    assert len(list(tmp_path.iterdir())) <= 3
    assert read(log, LogOptions(tail_lines=1)) == b"line 99\n"


def test_a_full_disk_drops_output_and_counts_it(tmp_path: Path) -> None:
    log = ContainerLog(tmp_path, Ticks())
    log.append(b"before\n")
    os.close(log._fd)
    log._fd = os.open("/dev/full", os.O_WRONLY)
    log.append(b"lost\n")
    log.finish()
    assert log.lost_bytes == 5
    assert read(log, LogOptions()) == b"before\n"


def test_a_log_that_cannot_be_written_is_dropped(tmp_path: Path) -> None:
    log = ContainerLog(tmp_path / "log", Ticks())
    shutil.rmtree(tmp_path / "log")
    log.append(b"12345")
    (tmp_path / "log").mkdir()
    log.append(b"6\n")
    log.finish()
    assert (log.lost_bytes, read(log, LogOptions())) == (5, b"6\n")


def test_closing_a_reader_twice_does_not_affect_others(tmp_path: Path) -> None:
    log = log_with(tmp_path, b"kept\n")
    gone, stays = log.read(LogOptions()), log.read(LogOptions())
    gone.close()
    gone.close()
    log.remove()
    with stays:
        assert b"".join(stays) == b"kept\n"
    assert list(tmp_path.iterdir()) == []


def test_a_reader_may_outlive_the_folder_of_its_log(tmp_path: Path) -> None:
    log = log_with(tmp_path / "log", b"1\n")
    reader = log.read(LogOptions())
    log.remove()
    shutil.rmtree(tmp_path / "log")
    reader.close()
