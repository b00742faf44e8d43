"""Calls of functions in a separate process, with limits on processor time, memory and waiting.

calls = LimitedCalls("kanister_py.core.templates.execution:execute_pickled")

response = calls(payload)

The process is a new interpreter instead of a fork, because a fork of a process with threads may
hang. It is reused for later calls and ends when it is idle for some time. Messages are bytes with
their length in front.
"""

from __future__ import annotations

import atexit
import math
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import IO, Final, NamedTuple

from kanister_py.gotemplate.errors import LimitExceeded

_HEADER: Final = 8
_IDLE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
# Maximum size of a response in bytes. The largest texts have 16 MiB.
_MAX_RESPONSE_BYTES: Final = 128 * 1024 * 1024
_OUT_OF_MEMORY: Final = 3


class CallStopped(Exception):
    """A call was stopped before it finished.

    `limit` is the reason: time, memory, stopped (by the caller), or fault if the process ended
    unexpectedly.
    """

    def __init__(self, limit: str, why: str) -> None:
        super().__init__(why)
        self.limit = limit
        self.why = why


class Bounds(NamedTuple):
    """Limits of a call, and the number of concurrent calls.

    `wall_seconds` also limits calls that only wait. `waiting` is the maximum number of callers that
    wait for a free process; further calls are refused at once.
    """

    cpu_seconds: int = 10
    wall_seconds: float = 60.0
    memory_bytes: int = 160 * 1024 * 1024
    processes: int = 2
    waiting: int = 1000


DEFAULT: Final = Bounds()


def _not_stopped() -> bool:
    return False


class LimitedCalls:
    """Calls a function `module:name`, from bytes to bytes, with limits. Thread-safe."""

    def __init__(self, function: str, bounds: Bounds = DEFAULT) -> None:
        self._function = function
        self._bounds = bounds
        self._idle: list[_Worker] = []
        self._lock = Lock()
        self._slots = BoundedSemaphore(bounds.processes)
        self._capacity = BoundedSemaphore(bounds.processes + bounds.waiting)
        atexit.register(self.close)

    def __call__(self, payload: bytes, is_stopped: Callable[[], bool] = _not_stopped) -> bytes:
        """Return the response of the function. Raises CallStopped.

        `is_stopped` is polled several times a second. If it returns True, the process is killed.
        """
        if not self._capacity.acquire(blocking=False):
            raise CallStopped("time", "too many calls are waiting")
        try:
            deadline = time.monotonic() + self._bounds.wall_seconds
            while not self._slots.acquire(timeout=_POLL_SECONDS):
                _check(deadline, is_stopped)
            try:
                return self._call(payload, deadline, is_stopped)
            finally:
                self._slots.release()
        finally:
            self._capacity.release()

    def _call(self, payload: bytes, deadline: float, is_stopped: Callable[[], bool]) -> bytes:
        while True:
            worker, is_fresh = self._worker()
            response = None
            try:
                response = worker.call(payload, deadline, is_stopped)
                if response is not None:
                    return response
            finally:
                if response is None:
                    worker.kill()
                else:
                    with self._lock:
                        self._idle.append(worker)
            # An idle process may end at the moment when it is called.
            if is_fresh or not worker.ended_idle:
                raise worker.why_ended(self._bounds)

    def _worker(self) -> tuple[_Worker, bool]:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.is_usable:
                    return worker, False
                worker.kill()
        return _Worker(self._function, self._bounds), True

    def close(self) -> None:
        """End the idle processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()


def _check(deadline: float, is_stopped: Callable[[], bool]) -> None:
    if is_stopped():
        raise CallStopped("stopped", "the call was stopped")
    if time.monotonic() > deadline:
        raise CallStopped("time", "the call takes too long")


class _Worker:
    """Process that is used by one thread at a time."""

    def __init__(self, function: str, bounds: Bounds) -> None:
        root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), root)))
        # Pass on no other variables, because they may contain credentials.
        environment = {"PYTHONPATH": path, "PATH": os.environ.get("PATH", os.defpath)}
        limits = f"{bounds.cpu_seconds} {bounds.memory_bytes}"
        self._owner = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-P", "-m", "kanister_py.limited_calls", function, *limits.split()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            # Ctrl-C must only reach the caller, which then stops the call.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin.fileno()
        self._responses = self._process.stdout.fileno()
        os.set_blocking(self._requests, False)

    @property
    def is_usable(self) -> bool:
        """Whether the process runs and is a child of this process. Forks must not use its pipes."""
        return self._owner == os.getpid() and self._process.poll() is None

    def call(self, payload: bytes, deadline: float, is_stopped: Callable[[], bool]) -> bytes | None:
        """Return the response, or None if the process ended."""
        remaining = memoryview(len(payload).to_bytes(_HEADER, "big") + payload)
        response = bytearray()
        size = math.inf
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests, selectors.EVENT_WRITE)
            selector.register(self._responses, selectors.EVENT_READ)
            while len(response) < size:
                for key, _ in selector.select(_POLL_SECONDS):
                    if key.fd == self._requests:
                        try:
                            remaining = remaining[os.write(self._requests, remaining) :]
                        except BlockingIOError:
                            continue
                        except BrokenPipeError:
                            return None
                        if not remaining:
                            selector.unregister(self._requests)
                        continue
                    chunk = os.read(self._responses, 1 << 20)
                    if not chunk:
                        return None
                    response += chunk
                    if size == math.inf and len(response) >= _HEADER:
                        size = _HEADER + int.from_bytes(response[:_HEADER], "big")
                        if size > _MAX_RESPONSE_BYTES:
                            raise CallStopped("memory", "the response is too large")
                _check(deadline, is_stopped)
        return bytes(response[_HEADER:])

    @property
    def ended_idle(self) -> bool:
        return self._process.wait() == 0

    def why_ended(self, bounds: Bounds) -> CallStopped:
        code = self._process.wait()
        if code == -signal.SIGXCPU:
            seconds = bounds.cpu_seconds
            return CallStopped("time", f"the call takes more than {seconds} s of processor time")
        if code in (_OUT_OF_MEMORY, -signal.SIGKILL):
            megabytes = bounds.memory_bytes // (1024 * 1024)
            return CallStopped("memory", f"the call takes more than {megabytes} MiB of memory")
        return CallStopped("fault", f"the process ended with code {code}")

    def kill(self) -> None:
        if self._owner != os.getpid():
            # This is a fork, which cannot wait for the process of its parent.
            self._process.returncode = 0
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        # The exit code of a process that has already ended is unchanged.
        self._process.kill()
        self._process.wait()


# Templates


def template_calls(
    bounds: Bounds = DEFAULT,
) -> Callable[[bytes, Callable[[], bool]], bytes]:
    """Return a caller for pickled executions of templates; raises LimitExceeded."""
    calls = LimitedCalls("kanister_py.core.templates.execution:execute_pickled", bounds)

    def execute(payload: bytes, is_stopped: Callable[[], bool]) -> bytes:
        try:
            return calls(payload, is_stopped)
        except CallStopped as stopped:
            raise LimitExceeded(stopped.limit, stopped.why) from None

    return execute


execute_template: Final = template_calls()
"""Caller that all templates of this process share."""


# Code of the separate process


def _serve(function: str, cpu_seconds: int, memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    module, _, name = function.partition(":")
    call = getattr(import_module(module), name)
    while _has_request(requests):
        header = requests.read(_HEADER)
        if len(header) < _HEADER:
            return
        payload = requests.read(int.from_bytes(header, "big"))
        used = resource.getrusage(resource.RUSAGE_SELF)
        max_seconds = math.ceil(used.ru_utime + used.ru_stime) + cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (max_seconds, resource.RLIM_INFINITY))
        try:
            response = call(payload)
        except MemoryError:
            sys.exit(_OUT_OF_MEMORY)
        responses.write(len(response).to_bytes(_HEADER, "big") + response)
        responses.flush()
        del payload, response


def _has_request(stream: IO[bytes]) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return bool(selector.select(_IDLE_SECONDS))


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
