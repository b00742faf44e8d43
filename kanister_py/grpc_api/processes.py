"""Serving processes: several processes behind one port, each with its own interpreter lock.

The parent process serves no calls itself: it holds the port, stops the processes gracefully,
replaces the dead ones, and serves metrics for all. The system distributes connections
among the processes, so a caller uses several processes only with several connections.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_METRICS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The folder in which processes with prometheus_client store metrics for other processes."""

_CUT_OFF_SECONDS: Final = 5.0
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 10.0
_STABLE_SECONDS: Final = 30.0
"""A process that ran this long did not fail because of its start."""
_LOG = logging.getLogger(__name__)


class ReservedPort:
    """A port on which several of our processes will listen, and no others."""

    def __init__(self, host: str, port: int) -> None:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        # First without sharing, to detect another server on this port.
        socket.create_server(address[:2], family=family).close()
        self._socket = socket.socket(family, kind, protocol)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(address)
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()


class _Process(NamedTuple):
    popen: subprocess.Popen[bytes]
    link: socket.socket
    """The process sends a byte when it serves; when one end is closed, the other process exits."""
    began: float


Wait: TypeAlias = Callable[..., str | None]
"""Waits for a signal, with or without a timeout, and returns its name, "" after the timeout,
or None if the optional descriptor is readable.
"""


class ServingProcesses:
    """Group of equal processes. `command` returns their arguments for a file descriptor.

    Each process reports through the descriptor when it serves, and exits when it is closed, so
    that no process outlives this one.
    """

    def __init__(
        self, command: Callable[[int], Sequence[str]], count: int, grace_seconds: float
    ) -> None:
        self._command = command
        self._count = count
        self._grace_seconds = grace_seconds
        self.environment: dict[str, str] = {}
        """Environment variables of the processes in addition to those of this process."""
        self.on_death: Callable[[int], object] = lambda _: None
        """Called with the process ID after a process has died."""
        self._running: list[_Process] = []
        self._pause = 0.0
        self._due = 0.0

    @property
    def process_ids(self) -> list[int]:
        """Process IDs of the running processes."""
        return [process.popen.pid for process in self._running]

    def run(
        self, wait: Wait, on_serving: Callable[[], object], on_stop: Callable[[], object]
    ) -> int:
        """Run all processes until a signal to stop, and return the exit code.

        If the first process cannot serve, its exit code is returned and no others are started.
        """
        first = self._start_one()
        try:
            name: str | None = "SIGCHLD"
            while name == "SIGCHLD":
                name = wait(None, first.link.fileno())
            if name is None:
                if not first.link.recv(1):
                    return first.popen.wait()
                self._fill()
                on_serving()
                pause = None
                while wait(pause) in ("SIGCHLD", ""):
                    pause = self._replace_dead()
            on_stop()
        finally:
            self._stop()
        return 0

    def _fill(self) -> None:
        while len(self._running) < self._count:
            self._start_one()

    def _start_one(self) -> _Process:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603 # this program, with its own arguments
                [sys.executable, "-m", "kanister_py", *self._command(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **self.environment},
            )
        started = _Process(process, ours, time.monotonic())
        self._running.append(started)
        return started

    def _replace_dead(self) -> float | None:
        """Replace processes that have died; return the seconds until the next check, or None."""
        for dead in [process for process in self._running if process.popen.poll() is not None]:
            self._record_death(dead)
            self._running.remove(dead)
        left = self._due - time.monotonic()
        if left > 0:
            return left
        self._fill()
        return None

    def _record_death(self, dead: _Process) -> None:
        """Record a death, and double the pause if processes die shortly after their start."""
        dead.link.close()
        self.on_death(dead.popen.pid)
        lived = time.monotonic() - dead.began
        longer = min(max(self._pause * 2, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        self._pause = 0.0 if lived >= _STABLE_SECONDS else longer
        self._due = time.monotonic() + self._pause
        code = dead.popen.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        _LOG.warning("Process %d died with %s and will be replaced", dead.popen.pid, how)

    def _stop(self) -> None:
        """Stop all processes gracefully; after the grace period they are killed."""
        for process in self._running:
            process.popen.terminate()
        until = time.monotonic() + self._grace_seconds + _CUT_OFF_SECONDS
        for process in self._running:
            try:
                process.popen.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                _LOG.warning("Process %d did not stop within its grace period", process.popen.pid)
                process.popen.kill()
                process.popen.wait()
            process.link.close()
        self._running = []


class JoinedMetrics:
    """Metrics of all processes together, including ended ones, for Prometheus.

    Counters of ended processes are added up in shared files, so that their number does not grow
    with every death. Gauges end with their process.
    """

    def __init__(self, processes: ServingProcesses) -> None:
        self._processes = processes
        self._stack = ExitStack()
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._folder = self._stack.enter_context(TemporaryDirectory())
        self._processes.environment[_METRICS_FOLDER] = self._folder
        self._processes.on_death = self._add_up
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def serve(self, port: int, host: str) -> int:
        """Start the metrics endpoint on a thread of its own; return its port."""
        from prometheus_client import CollectorRegistry, Gauge, start_http_server

        registry = CollectorRegistry()
        registry.register(self)
        alive = Gauge("function_server_processes", "Processes that serve", registry=registry)
        alive.set_function(lambda: len(self._processes.process_ids))
        server, _ = start_http_server(port, host, registry)
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return int(server.server_port)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all processes, and the system's process metrics by process ID."""
        from prometheus_client import ProcessCollector
        from prometheus_client.metrics_core import Metric
        from prometheus_client.multiprocess import MultiProcessCollector

        with self._lock:
            yield from MultiProcessCollector(None, self._folder).collect()  # type: ignore[no-untyped-call]  # the library has no types here
        joined: dict[str, Metric] = {}
        for pid in (os.getpid(), *self._processes.process_ids):
            for metric in ProcessCollector(pid=partial(str, pid), registry=None).collect():
                joined_metric = Metric(metric.name, metric.documentation, metric.type)
                for sample in metric.samples:
                    joined.setdefault(metric.name, joined_metric).add_sample(
                        sample.name, {"pid": str(pid)}, sample.value
                    )
        yield from joined.values()

    def _add_up(self, pid: int) -> None:
        """Add the counters of a dead process to the total of all dead processes."""
        from prometheus_client.mmap_dict import MmapedDict

        with self._lock:
            for path in Path(self._folder).glob(f"*_{pid}.db"):
                kind = path.name.partition("_")[0]
                if kind != "gauge" and path.stat().st_size:
                    total = MmapedDict(str(path.with_name(f"{kind}_died.db")))  # type: ignore[no-untyped-call]  # as above
                    for key, value, _, _ in MmapedDict.read_all_values_from_file(str(path)):  # type: ignore[no-untyped-call]  # as above
                        total.write_value(key, total.read_value(key)[0] + value, 0.0)  # type: ignore[no-untyped-call]  # as above
                    total.close()  # type: ignore[no-untyped-call]  # as above
                path.unlink()
