"""Functions as they are served: beside the original in Go, and by several processes.

Beside the original, each server has one core to itself, the caller another one, and they take
turns. Rates swing with whatever else the machine does; what counts is the processor time of a
call in the quietest round, and of what several processes bring, the fastest round.
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
# The original of that age knows no other.
_METHOD = "/apiextensions.fn.proto.v1beta1.FunctionRunnerService/RunFunction"
_READY = re.compile(r"Serving .*:(\d+) ")


class _Server(NamedTuple):
    process: subprocess.Popen[str]
    port: int

    @property
    def seconds(self) -> float:
        """Say how long it has used a processor, with all the processes that it started."""
        pid = self.process.pid
        started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(map(processor_seconds, [pid, *map(int, started)]))


class _Taken(NamedTuple):
    """The best of all rounds of one server."""

    rate: float = 0.0
    cost: float = float("inf")

    def __str__(self) -> str:
        return f"{self.cost * 1e6:.0f} µs, {self.rate:.0f} per s"


_Call = Callable[[int], tuple[float, int]]
"""Calls what serves on a port, and gives the calls a second and their number."""


def rows() -> list[Row]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("NOTHING IS MEASURED: a server and its caller need a core each", file=sys.stderr)
        return []
    return [*_beside_the_original(cores), *_over_processes()]


def _messages(request: Any) -> list[bytes]:
    """Marshal a request many times, in random map order: callers in Go never repeat their bytes."""
    from kanister_py.executor.wire_messages import REQUEST, write_request
    from kanister_py.proto.messages import message_class

    message, choose = message_class(REQUEST).FromString(write_request(request)), random.Random(0)
    return [shuffled(message, choose) for _ in range(200)]


def _beside_the_original(cores: Sequence[int]) -> list[Row]:
    from e2e.cluster.programs import BuildFailed, GoMissing, find_patch_and_transform

    try:
        original = find_patch_and_transform()
    except (GoMissing, BuildFailed) as error:
        print(f"NOTHING IS MEASURED BESIDE THE ORIGINAL: {error}", file=sys.stderr)
        return []
    with ExitStack() as stack:
        with _on(cores[0]):
            ours = stack.enter_context(_ours(1, _FUNCTION))
            theirs = stack.enter_context(_theirs(original))
        with _on(cores[1]):
            call = partial(_call_bare, _messages(small_request(input=INPUT)))
            found = _take_turns({"ours": ours, "theirs": theirs}, call)
    share = found["theirs"].cost / found["ours"].cost
    return [
        Row("a call of the original with GOMAXPROCS=1", str(found["theirs"]), "for reading"),
        Row("a call of ours, in one process", str(found["ours"]), "for reading"),
        Row(
            "ours / the original, for the same processor time",
            f"{share:.2f}",
            ">= 0.50",
            share >= 0.5,
        ),
    ]


def _over_processes() -> Iterator[Row]:
    """Say what a second process brings to callers of many connections, and to our own runner."""
    patching, echoing = small_request(input=INPUT), small_request()
    with TemporaryDirectory() as folder:
        Path(folder, "served.py").write_text(_MODULE)
        yield from _two_beside_one(
            "patch-and-transform", _FUNCTION, partial(_call_bare, _messages(patching)), folder
        )
        yield from _two_beside_one(
            "echo", "served:Echo", partial(_call_bare, _messages(echoing)), folder
        )
        yield from _two_beside_one(
            "milliseconds of work, our own runner",
            "served:Busy",
            partial(_call_by_runner, echoing),
            folder,
        )


def _two_beside_one(name: str, target: str, call: _Call, folder: str) -> list[Row]:
    with _ours(1, target, folder) as one, _ours(2, target, folder) as two:
        found = _take_turns({"one": one, "two": two}, call)
    more = found["two"].cost / found["one"].cost
    faster = found["two"].rate / found["one"].rate
    return [
        Row(f"{name}: --processes 2", str(found["two"]), "for reading"),
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
    """Call on as many connections as there are callers."""
    return calls_a_second(port, _METHOD, messages, calls=_CALLS, callers=_CALLERS), _CALLS


def _call_by_runner(request: Any, port: int) -> tuple[float, int]:
    """Call as a controller does, from so many threads that share a runner."""
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


def _take_turns(servers: Mapping[str, _Server], call: _Call) -> dict[str, _Taken]:
    found = dict.fromkeys(servers, _Taken())
    for round_ in range(_ROUNDS + 1):
        for name, server in servers.items():
            before, best = server.seconds, found[name]
            rate, calls = call(server.port)
            cost = (server.seconds - before) / calls
            if round_:  # the first round warms everything up
                found[name] = _Taken(max(best.rate, rate), min(best.cost, cost))
    return found


@contextmanager
def _on(core: int) -> Iterator[None]:
    """Run on one core alone, and so does what is started meanwhile."""
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
        found = next(filter(None, map(_READY.match, process.stderr)))
        yield _Server(process, int(found[1]))


@contextmanager
def _theirs(program: Path) -> Iterator[_Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(program), "--insecure", "--address", f"127.0.0.1:{port}"]
    # It writes a line for each call, which nobody is to wait for.
    with _started(command, subprocess.DEVNULL, GOMAXPROCS="1") as process:
        until = time.monotonic() + _PATIENCE_SECONDS
        while not _listens(port):
            assert process.poll() is None, "it has ended"
            assert time.monotonic() < until, "it never served"
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
