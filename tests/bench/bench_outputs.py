"""Throughput of the output parser for 100 MB of logs."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

from kanister_py.core.actionsets.outputs import LogTail, OutputParser
from tests.bench.measure import Row

TITLE = "Output parser"
MEGABYTES = 100


def short_lines() -> Iterator[bytes]:
    chunk = b"INFO dumped table public.accounts ### 42 rows\n" * 1424
    for _ in range(MEGABYTES * 1_000_000 // len(chunk)):
        yield chunk


def small_chunks() -> Iterator[bytes]:
    chunk = b"INFO dumped table public.accounts ### 42 rows\n" * 89
    for _ in range(MEGABYTES * 1_000_000 // len(chunk)):
        yield chunk


def one_line() -> Iterator[bytes]:
    chunk = b"#" * 65536
    for _ in range(MEGABYTES * 1_000_000 // len(chunk)):
        yield chunk


def with_outputs() -> Iterator[bytes]:
    line = b'###Phase-output###: {"key":"progress","value":"12345"}\n'
    chunk = line + b"INFO dumped table public.accounts ### 42 rows\n" * 1400
    for _ in range(MEGABYTES * 1_000_000 // len(chunk)):
        yield chunk


def rows() -> list[Row]:
    measured = []
    for kind in (short_lines, small_chunks, one_line, with_outputs):
        parser, tail = OutputParser(), LogTail()
        started = time.perf_counter()
        for chunk in kind():
            for piece in parser.feed(chunk):
                if isinstance(piece, bytes):
                    tail.feed(piece)
        parser.finish()
        seconds = time.perf_counter() - started
        name = kind.__name__.replace("_", " ")
        measured.append(Row(f"100 MB, {name}", f"{seconds:.2f} s", "< 3 s", seconds < 3))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return [*measured, Row("most memory of this process so far", f"{peak} MB", "")]
