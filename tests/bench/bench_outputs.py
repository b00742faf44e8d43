"""How fast 100 MB of log go through the output parser. Run: python tests/bench/bench_outputs.py"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

from kanister_py.core.actionsets.outputs import LogTail, OutputParser

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


def main() -> None:
    for kind in (short_lines, small_chunks, one_line, with_outputs):
        parser, tail = OutputParser(), LogTail()
        started = time.perf_counter()
        for chunk in kind():
            for piece in parser.feed(chunk):
                if isinstance(piece, bytes):
                    tail.feed(piece)
        parser.finish()
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{kind.__name__:14} {seconds:6.2f} s {MEGABYTES / seconds:8.0f} MB/s, peak {peak} MB"
        )


if __name__ == "__main__":
    main()
