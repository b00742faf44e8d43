"""Patch-and-transform as it is served, beside the original in Go, and over several processes.

Each server has one core to itself, the caller another one, and they take turns. Rates swing
with whatever else the machine does; what counts is the processor time of a call in the
quietest round.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench.bench_serving import INPUT, processor_seconds, small_request
from tests.bench.measure import Row
from tests.bench.plain_caller import calls_a_second

TITLE = "Patch and transform, served"
_CALLERS = 16
_CALLS = 3200
_ROUNDS = 9
_FUNCTION = "function-patch-and-transform"
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


def rows() -> list[Row]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("NOTHING IS MEASURED: a server and its caller need a core each", file=sys.stderr)
        return []
    message = _message()
    return [*_beside_the_original(cores, message), *_over_processes(message)]


def _message() -> bytes:
    from kanister_py.executor.wire_messages import write_request

    return write_request(small_request(input=INPUT))


def _beside_the_original(cores: Sequence[int], message: bytes) -> list[Row]:
    from e2e.cluster.programs import BuildFailed, GoMissing, find_patch_and_transform

    try:
        original = find_patch_and_transform()
    except (GoMissing, BuildFailed) as error:
        print(f"NOTHING IS MEASURED BESIDE THE ORIGINAL: {error}", file=sys.stderr)
        return []
    with ExitStack() as stack:
        with _on(cores[0]):
            ours = stack.enter_context(_ours(1))
            theirs = stack.enter_context(_theirs(original))
        with _on(cores[1]):
            found = _take_turns({"ours": ours, "theirs": theirs}, message)
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


def _over_processes(message: bytes) -> list[Row]:
    with _ours(1) as one, _ours(2) as two:
        found = _take_turns({"one": one, "two": two}, message)
    more = found["two"].cost / found["one"].cost
    faster = found["two"].rate / found["one"].rate
    return [
        Row("--processes 2 / 1, calls a second", f"{faster:.2f}", "for reading"),
        Row("--processes 2 / 1, processor time of a call", f"{more:.2f}", "<= 1.25", more <= 1.25),
    ]


def _take_turns(servers: Mapping[str, _Server], message: bytes) -> dict[str, _Taken]:
    found = dict.fromkeys(servers, _Taken())
    for round_ in range(_ROUNDS + 1):
        for name, server in servers.items():
            before, best = server.seconds, found[name]
            rate = calls_a_second(server.port, _METHOD, message, calls=_CALLS, callers=_CALLERS)
            cost = (server.seconds - before) / _CALLS
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
def _ours(processes: int) -> Iterator[_Server]:
    words = ("function", "serve", _FUNCTION, "--insecure", "--port", "0")
    command = [sys.executable, "-m", "kanister_py", *words, "--processes", str(processes)]
    with _started(command, subprocess.PIPE) as process:
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
def _started(command: Sequence[str], stderr: int, **more: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "NO_COLOR": "1", **more}
    process = subprocess.Popen(command, stderr=stderr, text=True, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=_PATIENCE_SECONDS)
