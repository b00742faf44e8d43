"""Exec sessions: commands in containers, and their output."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator

from kanister_py.embedded.pods.launcher import (
    Launch,
    Launcher,
    Process,
    StartFailed,
    drain,
)
from kanister_py.ports.cluster import Channel, ExecChunk, Stream


class ProcessSession(Stream):
    """One command with separate streams, until it ends or is closed.

    Closing kills the command and its process group. Background processes of the command do not keep
    the session open. A command that cannot be started ends like in a shell, with a message on
    stderr and exit code 126 or 127.
    """

    def __init__(
        self,
        launcher: Launcher,
        launch: Launch,
        inside: Process | None,
        *,
        has_stdin: bool,
        ended: Callable[[ProcessSession], None] = lambda _: None,
    ) -> None:
        self._ended = ended
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._wake, self._wake_write = os.pipe()
        self._exit_code: int | None = None
        self._is_closed = False
        self._process: Process | None = None
        self._waiting: deque[ExecChunk] = deque()
        self._streams: dict[int, Channel] = {}
        self._stdin: int | None = None
        self._start(launcher, launch, inside, has_stdin=has_stdin)

    def __iter__(self) -> Iterator[ExecChunk]:
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._exit_code is not None or self._is_closed:
                return
            self._read()

    @property
    def exit_code(self) -> int | None:
        return self._exit_code

    def write_stdin(self, data: bytes) -> None:
        view = memoryview(data)
        # The command does not read all its input; its exit code shows whether that is an error.
        with self._writing, contextlib.suppress(BrokenPipeError):
            while view and self._stdin is not None:
                view = view[os.write(self._stdin, view) :]

    def close_stdin(self) -> None:
        with self._writing:
            if self._stdin is not None:
                os.close(self._stdin)
                self._stdin = None

    def close(self) -> None:
        """Kill the command if it is still running, and release readers in other threads."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        os.write(self._wake_write, b"x")
        if self._process is not None and self._exit_code is None:
            self._process.send_signal(signal.SIGKILL)
        with self._reading:
            if self._process is not None:
                self._process.close()
            for fd in (*self._streams, self._wake, self._wake_write):
                os.close(fd)
            self._streams.clear()
        self.close_stdin()
        self._ended(self)

    def _start(
        self, launcher: Launcher, launch: Launch, inside: Process | None, *, has_stdin: bool
    ) -> None:
        stdout, stdout_write = os.pipe()
        stderr, stderr_write = os.pipe()
        if has_stdin:
            stdin, self._stdin = os.pipe()
        else:
            stdin = os.open(os.devnull, os.O_RDONLY)
        self._streams = {stdout: Channel.STDOUT, stderr: Channel.STDERR}
        for fd in self._streams:
            os.set_blocking(fd, False)
        try:
            process = launcher.start(
                launch, stdin=stdin, stdout=stdout_write, stderr=stderr_write, inside=inside
            )
            self._process = process
            process.wait_started()
        except StartFailed as error:
            self._process = None
            text = f"OCI runtime exec failed: exec failed: {error}\n".encode()
            self._waiting.append(ExecChunk(Channel.STDERR, text))
            self._exit_code = error.exit_code
        finally:
            for fd in (stdin, stdout_write, stderr_write):
                os.close(fd)

    def _read(self) -> None:
        """Wait for output or the end of the command."""
        with self._reading:
            if self._is_closed:
                return
            assert self._process is not None
            with selectors.DefaultSelector() as selector:
                for fd in (*self._streams, self._wake, self._process.fileno()):
                    selector.register(fd, selectors.EVENT_READ)
                ready = {key.fd for key, _ in selector.select()}
            if self._wake in ready:
                return
            has_ended = self._process.fileno() in ready
            exited = self._process.wait_exited() if has_ended else None
            # After the end, all output is in the pipes.
            for fd in list(self._streams):
                self._drain(fd, to_end=has_ended)
            if exited is not None:
                self._exit_code = exited.code

    def _drain(self, fd: int, *, to_end: bool) -> None:
        channel = self._streams[fd]
        while True:
            before = len(self._waiting)
            is_open = drain(fd, lambda data: self._waiting.append(ExecChunk(channel, data)))
            if not is_open:
                os.close(fd)
                del self._streams[fd]
                return
            if not to_end or len(self._waiting) == before:
                return
