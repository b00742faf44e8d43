"""Serving processes: several of them behind one port, each with an interpreter lock of its own.

The one that starts them serves nothing itself: it keeps the port, has the processes end in
good order, puts another one in the place of one that dies, and answers scrapes for all. The
system spreads connections over those that listen; a caller gets more than one process to
work for it by opening more than one connection.
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
"""Where processes of prometheus_client put what they count, for another one to read."""

_CUT_OFF_SECONDS: Final = 5.0
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 10.0
_LIVES_SECONDS: Final = 30.0
"""A process that lived so long has not died of what it was started with."""
_LOG = logging.getLogger(__name__)


class PortHeld:
    """A port that several processes of ours will listen on, and no one else's."""

    def __init__(self, host: str, port: int) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        # Without sharing first: another server on this port would go unnoticed.
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
    process: subprocess.Popen[bytes]
    link: socket.socket
    """Says that it serves; its end is the end of this process to the other one."""
    began: float


Wait: TypeAlias = Callable[..., str | None]
"""Waits for a signal, for so many seconds or without a limit, and gives its name; "" if the
time is over, None if a descriptor that is given besides can be read."""


class ServingProcesses:
    """Group of processes that are started alike, by a `command` that names a descriptor.

    Each says through the descriptor when it serves, and ends when that does: none outlives
    this one.
    """

    def __init__(
        self, command: Callable[[int], Sequence[str]], count: int, grace_seconds: float
    ) -> None:
        self._command = command
        self._count = count
        self._grace_seconds = grace_seconds
        self.environment: dict[str, str] = {}
        """What they find in their environment besides what this one does."""
        self.on_death: Callable[[int], object] = lambda _: None
        """Called with the number of a process that has died."""
        self._running: list[_Process] = []
        self._pause = 0.0
        self._due = 0.0

    @property
    def numbers(self) -> list[int]:
        """Those by which the system knows the processes that run."""
        return [each.process.pid for each in self._running]

    def run(self, wait: Wait, serves: Callable[[], object], stops: Callable[[], object]) -> int:
        """Have all of them serve until a signal says stop, and give the code to end with.

        Where the first one cannot serve, that is its code, and no other one is started.
        """
        first = self._start_one()
        try:
            name: str | None = "SIGCHLD"
            while name == "SIGCHLD":
                name = wait(None, first.link.fileno())
            if name is None:
                if not first.link.recv(1):
                    return first.process.wait()
                self._fill()
                serves()
                pause = None
                while wait(pause) in ("SIGCHLD", ""):
                    pause = self._replace_dead()
            stops()
        finally:
            self._stop()
        return 0

    def _fill(self) -> None:
        while len(self._running) < self._count:
            self._start_one()

    def _start_one(self) -> _Process:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603 # this program, with its own words
                [sys.executable, "-m", "kanister_py", *self._command(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **self.environment},
            )
        started = _Process(process, ours, time.monotonic())
        self._running.append(started)
        return started

    def _replace_dead(self) -> float | None:
        """Put others in the place of those that have died; say in how long to look again."""
        for each in [each for each in self._running if each.process.poll() is not None]:
            self._note_death(each)
            self._running.remove(each)
        left = self._due - time.monotonic()
        if left > 0:
            return left
        self._fill()
        return None

    def _note_death(self, dead: _Process) -> None:
        """Wait longer each time, if processes die of what they are started with."""
        dead.link.close()
        self.on_death(dead.process.pid)
        lived = time.monotonic() - dead.began
        longer = min(max(self._pause * 2, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        self._pause = 0.0 if lived >= _LIVES_SECONDS else longer
        self._due = time.monotonic() + self._pause
        code = dead.process.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        _LOG.warning("Process %d has died with %s; another one serves soon", dead.process.pid, how)

    def _stop(self) -> None:
        """Have all of them end in good order; what takes longer than its grace is killed."""
        for each in self._running:
            each.process.terminate()
        until = time.monotonic() + self._grace_seconds + _CUT_OFF_SECONDS
        for each in self._running:
            try:
                each.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                _LOG.warning("Process %d did not end within its grace", each.process.pid)
                each.process.kill()
                each.process.wait()
            each.link.close()
        self._running = []


class JoinedMetrics:
    """Metrics of all processes together, those that have ended included, for scrapes.

    What those counted is added up in files of its own, so that there are no more of them after
    a thousand deaths than after one; a gauge ends with its process.
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
        """Answer scrapes on a thread of its own, and say on which port."""
        from prometheus_client import CollectorRegistry, Gauge, start_http_server

        registry = CollectorRegistry()
        registry.register(self)
        alive = Gauge("function_server_processes", "Processes that serve", registry=registry)
        alive.set_function(lambda: len(self._processes.numbers))
        server, _ = start_http_server(port, host, registry)
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return int(server.server_port)

    def collect(self) -> Iterator[Metric]:
        """Give what all have counted, and what the system says of each, by its number."""
        from prometheus_client import ProcessCollector
        from prometheus_client.metrics_core import Metric
        from prometheus_client.multiprocess import MultiProcessCollector

        with self._lock:
            yield from MultiProcessCollector(None, self._folder).collect()  # type: ignore[no-untyped-call]  # the library has no types here
        joined: dict[str, Metric] = {}
        for number in (os.getpid(), *self._processes.numbers):
            for found in ProcessCollector(pid=partial(str, number), registry=None).collect():
                made = Metric(found.name, found.documentation, found.type)
                for sample in found.samples:
                    joined.setdefault(found.name, made).add_sample(
                        sample.name, {"pid": str(number)}, sample.value
                    )
        yield from joined.values()

    def _add_up(self, number: int) -> None:
        """Move what a process counted to what all others have counted that have died."""
        from prometheus_client.mmap_dict import MmapedDict

        with self._lock:
            for path in Path(self._folder).glob(f"*_{number}.db"):
                kind = path.name.partition("_")[0]
                if kind != "gauge" and path.stat().st_size:
                    total = MmapedDict(str(path.with_name(f"{kind}_died.db")))  # type: ignore[no-untyped-call]  # as above
                    for key, value, _, _ in MmapedDict.read_all_values_from_file(str(path)):  # type: ignore[no-untyped-call]  # as above
                        total.write_value(key, total.read_value(key)[0] + value, 0.0)  # type: ignore[no-untyped-call]  # as above
                    total.close()  # type: ignore[no-untyped-call]  # as above
                path.unlink()
