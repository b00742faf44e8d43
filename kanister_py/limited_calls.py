"""Calls in a process of their own, with limits on processor time, memory and waiting.

    calls = LimitedCalls("kanister_py.core.templates.execution:execute_pickled")
    answer = calls(payload)

The process is a fresh interpreter, never a fork: a fork of a process with threads may hang.
It is kept for the next call, and ends when it had nothing to do for a while. Both sides
speak bytes, each message behind its length.
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
# An answer is at most this long, in bytes; the largest texts have 16 MiB.
_MOST_ANSWERED: Final = 128 * 1024 * 1024
_OUT_OF_MEMORY: Final = 3


class CallStopped(Exception):
    """A call did not come to its end.

    `limit` is what it ran into: time, memory, stopped if the caller asked for it, or fault
    if the process ended for another reason.
    """

    def __init__(self, limit: str, why: str) -> None:
        super().__init__(why)
        self.limit = limit
        self.why = why


class Bounds(NamedTuple):
    """Limits of one call, and how many calls run at once.

    `wall_seconds` also bounds calls that compute nothing; `waiting` is how many callers
    may wait for a free process, beyond which they are refused at once.
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
    """Caller of one function `module:name` of bytes to bytes. Safe for threads."""

    def __init__(self, function: str, bounds: Bounds = DEFAULT) -> None:
        self._function = function
        self._bounds = bounds
        self._idle: list[_Worker] = []
        self._lock = Lock()
        self._slots = BoundedSemaphore(bounds.processes)
        self._room = BoundedSemaphore(bounds.processes + bounds.waiting)
        atexit.register(self.close)

    def __call__(self, payload: bytes, is_stopped: Callable[[], bool] = _not_stopped) -> bytes:
        """Return the function's answer; raises CallStopped.

        `is_stopped` is asked several times a second; the process is killed once it is true.
        """
        if not self._room.acquire(blocking=False):
            raise CallStopped("time", "too many calls are waiting")
        try:
            deadline = time.monotonic() + self._bounds.wall_seconds
            while not self._slots.acquire(timeout=_POLL_SECONDS):
                _check(deadline, is_stopped)
            try:
                return self._answer(payload, deadline, is_stopped)
            finally:
                self._slots.release()
        finally:
            self._room.release()

    def _answer(self, payload: bytes, deadline: float, is_stopped: Callable[[], bool]) -> bytes:
        while True:
            worker, is_fresh = self._worker()
            answer = None
            try:
                answer = worker.call(payload, deadline, is_stopped)
                if answer is not None:
                    return answer
            finally:
                if answer is None:
                    worker.kill()
                else:
                    with self._lock:
                        self._idle.append(worker)
            # A process that had nothing to do for long may end while it is being asked.
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
        """End the processes that wait for work."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()


def _check(deadline: float, is_stopped: Callable[[], bool]) -> None:
    if is_stopped():
        raise CallStopped("stopped", "it was stopped")
    if time.monotonic() > deadline:
        raise CallStopped("time", "it takes too long")


class _Worker:
    """One process. Used by one thread at a time."""

    def __init__(self, function: str, bounds: Bounds) -> None:
        root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), root)))
        # Nothing else of the environment: it may hold credentials.
        environment = {"PYTHONPATH": path, "PATH": os.environ.get("PATH", os.defpath)}
        limits = f"{bounds.cpu_seconds} {bounds.memory_bytes}"
        self._owner = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-P", "-m", "kanister_py.limited_calls", function, *limits.split()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            # Ctrl-C is for the caller, who then stops the call.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin.fileno()
        self._answers = self._process.stdout.fileno()
        os.set_blocking(self._requests, False)

    @property
    def is_usable(self) -> bool:
        """Whether it runs, and belongs to this process: a fork must not share its pipes."""
        return self._owner == os.getpid() and self._process.poll() is None

    def call(self, payload: bytes, deadline: float, is_stopped: Callable[[], bool]) -> bytes | None:
        """Return the answer; None if the process ended instead."""
        left = memoryview(len(payload).to_bytes(_HEADER, "big") + payload)
        answer = bytearray()
        size = math.inf
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests, selectors.EVENT_WRITE)
            selector.register(self._answers, selectors.EVENT_READ)
            while len(answer) < size:
                for key, _ in selector.select(_POLL_SECONDS):
                    if key.fd == self._requests:
                        try:
                            left = left[os.write(self._requests, left) :]
                        except BlockingIOError:
                            continue
                        except BrokenPipeError:
                            return None
                        if not left:
                            selector.unregister(self._requests)
                        continue
                    part = os.read(self._answers, 1 << 20)
                    if not part:
                        return None
                    answer += part
                    if size == math.inf and len(answer) >= _HEADER:
                        size = _HEADER + int.from_bytes(answer[:_HEADER], "big")
                        if size > _MOST_ANSWERED:
                            raise CallStopped("memory", "its answer is too long")
                _check(deadline, is_stopped)
        return bytes(answer[_HEADER:])

    @property
    def ended_idle(self) -> bool:
        return self._process.wait() == 0

    def why_ended(self, bounds: Bounds) -> CallStopped:
        code = self._process.wait()
        if code == -signal.SIGXCPU:
            seconds = bounds.cpu_seconds
            return CallStopped("time", f"it takes more than {seconds} s of processor time")
        if code in (_OUT_OF_MEMORY, -signal.SIGKILL):
            megabytes = bounds.memory_bytes // (1024 * 1024)
            return CallStopped("memory", f"it takes more than {megabytes} MiB of memory")
        return CallStopped("fault", f"its process ended with code {code}")

    def kill(self) -> None:
        if self._owner != os.getpid():
            # A copy made by a fork: the process is not ours to wait for.
            self._process.returncode = 0
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        # One that has ended by itself keeps its own code.
        self._process.kill()
        self._process.wait()


# Templates


def template_calls(
    bounds: Bounds = DEFAULT,
) -> Callable[[bytes, Callable[[], bool]], bytes]:
    """Make a caller for packed executions of templates; it raises LimitExceeded."""
    calls = LimitedCalls("kanister_py.core.templates.execution:execute_pickled", bounds)

    def execute(payload: bytes, is_stopped: Callable[[], bool]) -> bytes:
        try:
            return calls(payload, is_stopped)
        except CallStopped as stopped:
            raise LimitExceeded(stopped.limit, stopped.why) from None

    return execute


execute_template: Final = template_calls()
"""The caller that all templates of this process share."""


# The process


def _serve(function: str, cpu_seconds: int, memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    module, _, name = function.partition(":")
    call = getattr(import_module(module), name)
    while _has_request(requests):
        header = requests.read(_HEADER)
        if len(header) < _HEADER:
            return
        payload = requests.read(int.from_bytes(header, "big"))
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = math.ceil(used.ru_utime + used.ru_stime) + cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        try:
            answer = call(payload)
        except MemoryError:
            sys.exit(_OUT_OF_MEMORY)
        answers.write(len(answer).to_bytes(_HEADER, "big") + answer)
        answers.flush()
        del payload, answer


def _has_request(stream: IO[bytes]) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return bool(selector.select(_IDLE_SECONDS))


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
