"""Memory of a controller after large responses of a function."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from kanister_py.core.compositions.messages import FunctionResponse, Part
from kanister_py.executor.wire_messages import read_request, write_response
from kanister_py.proto.messages import METHODS, V1
from tests.controller.compositions.composing_process import PATIENCE_SECONDS

REPOSITORY = Path(__file__).parents[3]
MOST_BYTES = 250 << 20
CALLS = 300
LIMIT_BYTES = 512 << 20
TTL_SECONDS = 5.0


class Talker:
    """A function whose responses are too large while `is_healthy` is False."""

    def __init__(self) -> None:
        self.is_healthy = True
        self.calls = 0
        self.large_answer = b"\x22\x80\x80\x80\x0a" + bytes(20 << 20)

    def answer(self, request: bytes, _context: Any) -> bytes:
        self.calls += 1
        if not self.is_healthy:
            return self.large_answer
        return write_response(
            FunctionResponse(Part({}), tag=read_request(request).tag, ttl_seconds=TTL_SECONDS)
        )


@pytest.fixture
def talker() -> Iterator[tuple[Talker, int]]:
    function = Talker()
    server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", -1)])
    service, _, method = METHODS[V1].strip("/").partition("/")
    handler = grpc.unary_unary_rpc_method_handler(function.answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield function, port
    server.stop(0).wait()


class Composing:
    """Client of the composing process, and reader of its memory."""

    def __init__(self, function: Talker, port: int, count: int = 30) -> None:
        self.function = function
        self.count = count
        module = "tests.controller.compositions.composing_process"
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, f"127.0.0.1:{port}", str(count)],
            # The setting of the image.
            env={**os.environ, "MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "131072"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )

    def ask(self, word: str) -> dict[str, Any]:
        """Request a report; `again` causes a reconcile of all resources first."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        report: dict[str, Any] = json.loads(self.process.stdout.readline())
        return report

    def until(
        self, is_so: Callable[[dict[str, Any]], bool], again_seconds: float = 0.0
    ) -> dict[str, Any]:
        """Wait for a report, causing further reconciles only after the last one has ended.

        The cluster in memory is in the same process, and its growth must not be measured.
        """
        until, calls, asked_at = time.monotonic() + PATIENCE_SECONDS, self.function.calls, 0.0
        while not is_so(report := self.ask("how")):
            assert time.monotonic() < until, report
            is_over = self.function.calls >= calls + self.count
            waited = time.monotonic() - asked_at
            if waited > max(again_seconds, 1.0) or (is_over and not again_seconds):
                calls, asked_at = self.function.calls, time.monotonic()
                self.ask("again")
            time.sleep(0.05)
        return report

    def bytes_of(self, name: str) -> int:
        """Read a memory figure of the process: `VmRSS` is the current one, `VmHWM` the maximum."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        line = next(candidate for candidate in lines if candidate.startswith(f"{name}:"))
        return int(line.split()[1]) << 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc says what is used")
def test_a_response_of_20_megabytes_does_not_use_its_size_in_memory(
    talker: tuple[Talker, int],
) -> None:
    function, port = talker
    composing = Composing(function, port)
    try:
        composing.until(lambda _: function.calls >= CALLS)
        composing.until(lambda report: report["synced"] == composing.count)
        before = composing.bytes_of("VmRSS")
        function.is_healthy, function.calls = False, 0
        outage = composing.until(lambda state: not state["synced"] and function.calls >= CALLS)
        assert "its response has 20 MiB, and 8 MiB are allowed" in outage["messages"][0]
        assert composing.bytes_of("VmHWM") <= MOST_BYTES
        function.is_healthy = True
        composing.until(lambda report: report["synced"] == composing.count)
        assert composing.bytes_of("VmRSS") <= before * 1.2
    finally:
        composing.process.kill()
        composing.process.communicate()


def large_answer(**parts: Any) -> bytes:
    return write_response(FunctionResponse(Part({}), ttl_seconds=TTL_SECONDS, **parts))


LARGE_CONTEXT = large_answer(context=Part({f"k{number}": "x" * 70_000 for number in range(100)}))
MANY_VALUES = large_answer(context=Part({f"k{number}": "x" * 60 for number in range(90_000)}))
LONG_RESULT = large_answer(results=({"severity": "SEVERITY_NORMAL", "message": "x" * (7 << 20)},))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc says what is used")
@pytest.mark.parametrize(
    ("answer", "count", "growth"),
    [
        pytest.param(LARGE_CONTEXT, 30, 1.25, id="context-30", marks=pytest.mark.long),
        pytest.param(LARGE_CONTEXT, 100, 1.25, id="context-100"),
        pytest.param(LONG_RESULT, 30, 1.25, id="result", marks=pytest.mark.long),
        # After many small objects, some memory stays fragmented.
        pytest.param(MANY_VALUES, 30, 2.0, id="many-values"),
    ],
)
def test_responses_of_7_megabytes_are_processed_and_their_memory_is_released(
    talker: tuple[Talker, int], answer: bytes, count: int, growth: float
) -> None:
    assert 6 << 20 < len(answer) < 8 << 20
    function, port = talker
    function.large_answer = answer
    composing = Composing(function, port, count)
    try:
        composing.until(lambda report: report["synced"] == count)
        before = composing.bytes_of("VmRSS")
        function.is_healthy, function.calls = False, 0
        composing.ask("again")
        composing.until(lambda _: function.calls >= count)
        assert composing.bytes_of("VmHWM") <= LIMIT_BYTES
        function.is_healthy, function.calls = True, 0
        composing.until(lambda report: report["synced"] == count and function.calls >= count)
        composing.until(lambda _: composing.bytes_of("VmRSS") <= before * growth, 3.0)
    finally:
        composing.process.kill()
        composing.process.communicate()
