"""Response times of the pages of runs, and the cost of streaming logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.parse import urlsplit
from urllib.request import urlopen

from tests.bench.measure import Row
from tests.http_api.runs_of import RunsOf, phase, runs_of_a_cluster, status_of
from tests.http_api.serving import served

TITLE = "Pages with 5,000 runs"

_RUNS = 5000
_REQUESTS = 200
_LINES = 50
_WATCHERS = 200
_WATCHED_SECONDS = 20.0
_PATIENCE_SECONDS = 120.0


def rows() -> list[Row]:
    with runs_of_a_cluster() as runs, served(runs.app()) as url:
        status = status_of("complete", phase("dump", "complete", 1, 9))
        for number in range(_RUNS):
            runs.add(f"run-{number:05}", status)
        _until(lambda: len(runs.overview.runs().rows) >= _RUNS)
        page = _p99_seconds(lambda: _get(f"{url}/runs"))
        run = _p99_seconds(lambda: _get(f"{url}/runs/shop/run-00042"))
        line = asyncio.run(_line_seconds(runs, url))
        share = asyncio.run(_share_of_watching(runs, url))
    return [
        Row("the list of runs, p99", f"{page * 1000:.0f} ms", "<= 50 ms", page <= 0.05),
        Row("one run, p99", f"{run * 1000:.0f} ms", "<= 50 ms", run <= 0.05),
        Row(
            "a log line until it reaches a browser, maximum",
            f"{line * 1000:.0f} ms",
            "<= 300 ms",
            line <= 0.3,
        ),
        Row(
            f"{_WATCHERS} clients of a run that prints a line a second",
            f"{share:.1%} of a core",
            "<= 5%",
            share <= 0.05,
        ),
    ]


def _until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_done():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)


def _get(url: str) -> None:
    with urlopen(url) as answer:
        answer.read()


def _p99_seconds(call: Callable[[], None]) -> float:
    call()
    times = []
    for _ in range(_REQUESTS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return sorted(times)[int(len(times) * 0.99)]


async def _stream(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    path = f"{parts.path}?{parts.query}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    await writer.drain()
    return reader, writer


async def _line_seconds(runs: RunsOf, url: str) -> float:
    reader, writer = await _stream(f"{url}/runs/shop/under-way/events?0")
    most = 0.0
    for number in range(_LINES):
        text = f"line-{number:04}."
        began = time.perf_counter()
        await asyncio.to_thread(runs.say, "under-way", text)
        while text.encode() not in await reader.readline():
            pass
        most = max(most, time.perf_counter() - began)
        await asyncio.sleep(0.02)
    writer.close()
    return most


async def _share_of_watching(runs: RunsOf, url: str) -> float:
    """Return the share of a core that this process uses for serving and reading."""
    streams = [await _stream(f"{url}/runs/shop/under-way/events?0") for _ in range(_WATCHERS)]
    readers = [asyncio.create_task(_read_all(reader)) for reader, _ in streams]
    await asyncio.sleep(2)
    began, used = time.monotonic(), time.process_time()
    while time.monotonic() < began + _WATCHED_SECONDS:
        await asyncio.sleep(1)
        await asyncio.to_thread(runs.say, "under-way", "something new")
    share = (time.process_time() - used) / (time.monotonic() - began)
    for task, (_, writer) in zip(readers, streams, strict=True):
        task.cancel()
        writer.close()
    return share


async def _read_all(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass
