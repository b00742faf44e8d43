"""Cost of the HTTP endpoint, compared with a minimal app that returns the same bytes."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.bench.bench_registry import registry_with
from tests.bench.measure import Row

TITLE = "Endpoint"
CONNECTIONS = 8
REQUESTS = 1500
ROUNDS = 5
PATH = "/v1/functions/Function7"


def _publication() -> Any:
    from kanister_py.core.registry.entries import RegistryBuilder, default_of
    from kanister_py.core.versions.semver import Version
    from kanister_py.http_api.discovery import Publication
    from kanister_py.ports.function import Func

    builder: Any = RegistryBuilder()
    for family in registry_with(10):
        run = {"name": family.function, "exec": lambda *_: {}}
        code = type(family.function, (Func,), run)
        entries = [entry._replace(target=code) for entry in family]
        builder.add(entries, default_of(entries))
    return Publication(builder.build(), Version(0, 4, 0), "{}\n", "{}\n")


def _ours() -> Any:
    from kanister_py.http_api.app import build_app

    return build_app(_publication())


def _bare() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from kanister_py.http_api.discovery import Discovery
    from kanister_py.http_api.negotiation import RequestOptions

    body = Discovery(_publication()).function("Function7", RequestOptions(())).body

    async def same(_request: Request) -> Response:
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route("/v1/functions/{name}", same)])


def _run_server(which: str, listening: socket.socket) -> None:
    import uvicorn

    app = _ours() if which == "ours" else _bare()
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
    uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def _server(which: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = multiprocessing.get_context("fork")
        process = context.Process(target=_run_server, args=(which, listening))
        process.start()
        try:
            yield listening.getsockname()[1]
        finally:
            process.terminate()
            process.join()


async def _client(port: int, request: bytes, count: int, waits: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(count):
        start = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        _, _, tail = head.lower().partition(b"content-length: ")
        if tail:
            await reader.readexactly(int(tail.partition(b"\r\n")[0]))
        waits.append(time.perf_counter() - start)
    writer.close()
    await writer.wait_closed()


async def _load(port: int, headers: str) -> tuple[float, float]:
    """Return requests a second, and the 99th percentile of the response time."""
    request = f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode()
    waits: list[float] = []
    start = time.perf_counter()
    count = REQUESTS // CONNECTIONS
    await asyncio.gather(*(_client(port, request, count, waits) for _ in range(CONNECTIONS)))
    seconds = time.perf_counter() - start
    return len(waits) / seconds, statistics.quantiles(waits, n=100)[98]


async def _etag(port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return answer.partition("etag: ")[2].partition("\r\n")[0]


def rows() -> list[Row]:
    rounds: dict[str, list[tuple[float, float]]] = {"bare": [], "ours": [], "304": []}
    with _server("bare") as bare, _server("ours") as ours:
        condition = f"If-None-Match: {asyncio.run(_etag(ours))}\r\n"
        asyncio.run(_load(bare, ""))  # warm-up
        asyncio.run(_load(ours, ""))
        for _ in range(ROUNDS):
            rounds["bare"].append(asyncio.run(_load(bare, "")))
            rounds["ours"].append(asyncio.run(_load(ours, "")))
            rounds["304"].append(asyncio.run(_load(ours, condition)))
    rate = {name: statistics.median(run[0] for run in runs) for name, runs in rounds.items()}
    slow = {name: statistics.median(run[1] for run in runs) for name, runs in rounds.items()}
    share, wait, unchanged = (
        rate["ours"] / rate["bare"],
        slow["ours"] / slow["bare"],
        rate["304"] / rate["ours"],
    )
    figures = f"{rate['ours']:.0f} / {rate['bare']:.0f} per s"
    return [
        Row(f"throughput, ours / bare ({figures})", f"{share:.2f}", ">= 0.70", share >= 0.7),
        Row("p99 of the response time, ours / bare", f"{wait:.2f}", "<= 2.00", wait <= 2),
        # The medians of two equal rates differ by a few hundredths.
        Row("throughput, 304 / 200", f"{unchanged:.2f}", ">= 1.00", unchanged >= 0.97),
    ]
