"""Served functions, compared with the original in Go and with several processes.

Servers take turns on one core, and the caller has another one. Rates vary with other load on the
machine, so the figures are the processor time of a call in the best round and, for several
processes, the rate of the fastest round.
"""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tests.bench.bench_serving import INPUT, processor_seconds, small_request
from tests.bench.measure import Row
from tests.bench.plain_caller import calls_a_second
from tests.wire_fields import shuffled

TITLE = "Functions, served"
_CALLERS = 32
_CALLS = 3200
_ROUNDS = 9
_FUNCTION = "function-patch-and-transform"
_RUNNER_CALLS = 640
_MODULE = """
from kanister_py import CompositionFunction, Response

class Echo(CompositionFunction):
    name = "function-echo"
    version = "v0.1.0"

    def run(self, request):
        return Response(request)

class Busy(Echo):
    name = "function-busy"

    def run(self, request):
        sum(range(100_000))
        return Response(request)
"""
_PATIENCE_SECONDS = 60.0
# The pinned version of the original supports no other one.
_METHOD = "/apiextensions.fn.proto.v1beta1.FunctionRunnerService/RunFunction"
_READY = re.compile(r"Serving .*:(\d+) ")


class _Server(NamedTuple):
    process: subprocess.Popen[str]
    port: int

    @property
    def seconds(self) -> float:
        """Processor time of the server and its child processes."""
        pid = self.process.pid
        started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(map(processor_seconds, [pid, *map(int, started)]))


class _Best(NamedTuple):
    """Best figures of all rounds of one server."""

    rate: float = 0.0
    cost: float = float("inf")

    def __str__(self) -> str:
        return f"{self.cost * 1e6:.0f} µs, {self.rate:.0f} per s"


_Call = Callable[[int], tuple[float, int]]
"""Calls the server on a port; returns the calls a second and their number."""


def rows() -> list[Row]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("Not measured: server and caller need two cores", file=sys.stderr)
        return []
    return [*_compare_with_original(cores), *_compare_processes()]


def _messages(request: Any) -> list[bytes]:
    """Marshal a request many times in random map order, as callers in Go do."""
    from kanister_py.executor.wire_messages import REQUEST, write_request
    from kanister_py.proto.messages import message_class

    message, choose = message_class(REQUEST).FromString(write_request(request)), random.Random(0)
    return [shuffled(message, choose) for _ in range(200)]


def _compare_with_original(cores: Sequence[int]) -> list[Row]:
    from e2e.cluster.programs import BuildFailed, GoMissing, find_patch_and_transform

    try:
        original = find_patch_and_transform()
    except (GoMissing, BuildFailed) as error:
        print(f"Not compared with the original: {error}", file=sys.stderr)
        return []
    with ExitStack() as stack:
        with _on(cores[0]):
            ours = stack.enter_context(_ours(1, _FUNCTION))
            theirs = stack.enter_context(_theirs(original))
        with _on(cores[1]):
            call = partial(_call_bare, _messages(small_request(input=INPUT)))
            best = _take_turns({"ours": ours, "theirs": theirs}, call)
    share = best["theirs"].cost / best["ours"].cost
    return [
        Row("a call of the original with GOMAXPROCS=1", str(best["theirs"]), "for reading"),
        Row("a call of ours, in one process", str(best["ours"]), "for reading"),
        Row(
            "ours / the original, for the same processor time",
            f"{share:.2f}",
            ">= 0.50",
            share >= 0.5,
        ),
    ]


def _compare_processes() -> Iterator[Row]:
    """Compare two processes with one, for many connections and for our own runner."""
    patching, echoing = small_request(input=INPUT), small_request()
    with TemporaryDirectory() as folder:
        Path(folder, "served.py").write_text(_MODULE)
        yield from _compare_two_with_one(
            "patch-and-transform", _FUNCTION, partial(_call_bare, _messages(patching)), folder
        )
        yield from _compare_two_with_one(
            "echo", "served:Echo", partial(_call_bare, _messages(echoing)), folder
        )
        yield from _compare_two_with_one(
            "milliseconds of work, our own runner",
            "served:Busy",
            partial(_call_by_runner, echoing),
            folder,
        )


def _compare_two_with_one(name: str, target: str, call: _Call, folder: str) -> list[Row]:
    with _ours(1, target, folder) as one, _ours(2, target, folder) as two:
        best = _take_turns({"one": one, "two": two}, call)
    more = best["two"].cost / best["one"].cost
    faster = best["two"].rate / best["one"].rate
    return [
        Row(f"{name}: --processes 2", str(best["two"]), "for reading"),
        Row(
            f"{name}: --processes 2 / 1, calls a second",
            f"{faster:.2f}",
            ">= 1.25",
            faster >= 1.25,
        ),
        Row(
            f"{name}: --processes 2 / 1, processor time of a call",
            f"{more:.2f}",
            "<= 1.25",
            more <= 1.25,
        ),
    ]


def _call_bare(messages: Sequence[bytes], port: int) -> tuple[float, int]:
    """Call with one connection for every caller."""
    return calls_a_second(port, _METHOD, messages, calls=_CALLS, callers=_CALLERS), _CALLS


def _call_by_runner(request: Any, port: int) -> tuple[float, int]:
    """Call as a controller does, from several threads that share a runner."""
    from kanister_py.adapters.runner_grpc import ClientSecurity, GrpcRunner
    from kanister_py.core.registry.entries import FunctionRevision
    from kanister_py.ports.function_runner import FunctionCall

    runner = GrpcRunner(ClientSecurity(is_insecure=True))
    call = FunctionCall("s", FunctionRevision("f", "f-1", 1, endpoint=f"127.0.0.1:{port}"), request)
    with closing(runner), ThreadPoolExecutor(_CALLERS) as pool:
        start = time.perf_counter()
        for _ in pool.map(lambda _: runner.run(call), range(_RUNNER_CALLS)):
            pass
        return _RUNNER_CALLS / (time.perf_counter() - start), _RUNNER_CALLS


def _take_turns(servers: Mapping[str, _Server], call: _Call) -> dict[str, _Best]:
    best_rounds = dict.fromkeys(servers, _Best())
    for round_ in range(_ROUNDS + 1):
        for name, server in servers.items():
            before, best = server.seconds, best_rounds[name]
            rate, calls = call(server.port)
            cost = (server.seconds - before) / calls
            if round_:  # the first round is a warm-up
                best_rounds[name] = _Best(max(best.rate, rate), min(best.cost, cost))
    return best_rounds


@contextmanager
def _on(core: int) -> Iterator[None]:
    """Run this process and its new children on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _ours(processes: int, target: str, folder: str | None = None) -> Iterator[_Server]:
    words = ("function", "serve", target, "--insecure", "--port", "0")
    command = [sys.executable, "-m", "kanister_py", *words, "--processes", str(processes)]
    with _started(command, subprocess.PIPE, folder) as process:
        assert process.stderr is not None
        ready = next(filter(None, map(_READY.match, process.stderr)))
        yield _Server(process, int(ready[1]))


@contextmanager
def _theirs(program: Path) -> Iterator[_Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(program), "--insecure", "--address", f"127.0.0.1:{port}"]
    # It logs a line for every call, which must not slow it down.
    with _started(command, subprocess.DEVNULL, GOMAXPROCS="1") as process:
        until = time.monotonic() + _PATIENCE_SECONDS
        while not _listens(port):
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < until, "the server did not start in time"
            time.sleep(0.05)
        yield _Server(process, port)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@contextmanager
def _started(
    command: Sequence[str], stderr: int, folder: str | None = None, **more: str
) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "NO_COLOR": "1", **more}
    process = subprocess.Popen(command, stderr=stderr, text=True, env=environment, cwd=folder)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=_PATIENCE_SECONDS)
