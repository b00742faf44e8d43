"""Functions served by several processes, and the end of serving."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final
from urllib.request import urlopen

import grpc
import pytest

from kanister_py.adapters.runner_grpc import ClientSecurity, GrpcRunner
from kanister_py.core.compositions.messages import FunctionRequest
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.ports.function_runner import FunctionCall
from kanister_py.proto.messages import METHODS, V1

PATIENCE_SECONDS: Final = 120.0
STOPS: Final = int(os.environ.get("KANISTER_PY_STOPS", "4"))
"""How often serving is stopped under load; the long gate wants 500."""

SLOW: Final = """
import time
from kanister_py import CompositionFunction, Response

class Slow(CompositionFunction):
    name = "function-slow"
    version = "v0.1.0"

    def run(self, request):
        time.sleep(600)
        return Response(request)
"""


WHICH: Final = """
import os, time
from kanister_py import CompositionFunction, Response

class Which(CompositionFunction):
    name = "function-which"
    version = "v0.1.0"

    def run(self, request):
        time.sleep(0.05)
        response = Response(request)
        response.normal(str(os.getpid()))
        return response
"""


@contextmanager
def serving(*words: str, cwd: Path | None = None) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Serve on a free port; yield the process and the port."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kanister_py",
            "function",
            "serve",
            *words,
            "--insecure",
            "--port",
            "0",
        ],
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if match := re.match(r"Serving .*:(\d+) ", line):
                break
        else:
            raise AssertionError("it never served")
        yield process, int(match[1])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def call(port: int, timeout: float = PATIENCE_SECONDS) -> None:
    """Call over a new connection; the system chooses the process."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        run = channel.unary_unary(METHODS[V1])
        assert run(b"\x0a\x03\x0a\x01t", timeout=timeout, wait_for_ready=True)


def processes_of(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(part) for part in children.split()]


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def load_on(port: int) -> Iterator[None]:
    """Call repeatedly on several threads."""
    is_over = Event()

    def go_on() -> None:
        while not is_over.is_set():
            with suppress(grpc.RpcError):
                call(port, timeout=1)

    callers = [Thread(target=go_on) for _ in range(3)]
    for caller in callers:
        caller.start()
    try:
        yield
    finally:
        is_over.set()
        for caller in callers:
            caller.join()


@pytest.mark.long
@pytest.mark.parametrize("count", ["1", "2"])
def test_stops_under_load_end(count: str) -> None:
    for number in range(STOPS):
        words = ("function-auto-ready", "--processes", count, "--grace", "5")
        with serving(*words) as (process, port), load_on(port):
            # At once, during the first calls, and later.
            time.sleep(number % 4 * 0.05)
            children = processes_of(process.pid)
            process.send_signal(signal.SIGTERM if number % 2 else signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 0
        assert not any(map(is_alive, children))


@pytest.mark.parametrize("count", ["1", "2"])
def test_endless_call_is_aborted_after_the_grace_period(tmp_path: Path, count: str) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    words = ("slow:Slow", "--grace", "0.2", "--processes", count)
    with serving(*words, cwd=tmp_path) as (process, port):

        def wait_in_vain() -> None:
            with suppress(grpc.RpcError):
                call(port)

        caller = Thread(target=wait_in_vain)
        caller.start()
        time.sleep(1)
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
        caller.join()


def test_dead_process_is_replaced_while_others_answer() -> None:
    with serving("function-auto-ready", "--processes", "2") as (process, port):
        until(lambda: len(processes_of(process.pid)) == 2)
        first = processes_of(process.pid)
        os.kill(first[0], signal.SIGKILL)
        until(lambda: len(set(processes_of(process.pid)) - set(first)) == 1)
        assert first[1] in processes_of(process.pid)
        call(port)


def test_our_runner_uses_all_processes_behind_a_port(tmp_path: Path) -> None:
    """The system chooses the process of a connection, and the second process starts later."""
    (tmp_path / "which.py").write_text(WHICH)

    def processes_that_answer(port: int) -> set[str]:
        runner = GrpcRunner(ClientSecurity(is_insecure=True), timeout_seconds=PATIENCE_SECONDS)
        revision = FunctionRevision("f", "f-1", 1, endpoint=f"127.0.0.1:{port}")
        call = FunctionCall("s", revision, FunctionRequest.from_data({"meta": {"tag": "t"}}))
        with closing(runner), ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: runner.run(call), range(64)))
        return {answer.results[0]["message"] for answer in answers}

    with serving("which:Which", "--processes", "2", cwd=tmp_path) as (process, port):
        until(lambda: len(processes_of(process.pid)) == 2)
        both = {str(pid) for pid in processes_of(process.pid)}
        until(lambda: processes_that_answer(port) == both)


def test_processes_end_with_their_parent() -> None:
    with serving("function-auto-ready", "--processes", "2") as (process, _):
        until(lambda: len(processes_of(process.pid)) == 2)
        children = processes_of(process.pid)
        process.kill()
        until(lambda: not any(map(is_alive, children)))


def test_one_scrape_counts_the_calls_of_all_processes() -> None:
    words = ("--processes", "2", "--metrics-port", "0")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kanister_py",
            "function",
            "serve",
            "function-auto-ready",
            "--insecure",
            "--port",
            "0",
            *words,
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        scraped = re.search(r"Metrics on (\S+)", process.stderr.readline())
        served = re.search(r"by 2 processes on .*:(\d+) ", process.stderr.readline())
        assert scraped
        assert served
        for _ in range(12):
            call(int(served[1]))
        with urlopen(f"http://{scraped[1]}/metrics") as answer:
            text = answer.read().decode()
        assert re.search(r'grpc_server_handled_total\{grpc_code="OK".*\} 12\.0', text), text
        assert "function_server_processes 2.0" in text
        numbers = re.findall(r'process_resident_memory_bytes\{pid="(\d+)"\}', text)
        assert {*map(int, numbers)} == {process.pid, *processes_of(process.pid)}
    finally:
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
        process.stderr.close()


def test_port_of_another_server_is_not_shared() -> None:
    with serving("function-auto-ready", "--processes", "2") as (_, port):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "kanister_py",
                "function",
                "serve",
                "function-auto-ready",
                "--insecure",
                "--processes",
                "2",
                "--port",
                str(port),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert (done.returncode, "Address already in use; choose" in done.stderr) == (1, True)
