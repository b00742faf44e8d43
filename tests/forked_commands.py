"""Commands in forked processes, from a process that has imported the shared modules.

Most of the time of a short command is the start of Python and the import of modules. The parent
process has a single thread and runs no command itself. A command starts with the environment,
working folder and streams of its request, like a new process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module, invalidate_caches
from pathlib import Path
from struct import Struct
from tempfile import TemporaryFile
from typing import Final

REPOSITORY = Path(__file__).parent.parent
# Modules that most commands need and that start no threads and open no connections.
_SHARED: Final = (
    "kanister_py.cli.main",
    "kanister_py.cli.functions",
    "kanister_py.cli.lint",
    "kanister_py.cli.plan",
    "kanister_py.cli.upgrade",
    "kanister_py.wiring",
)
_NUMBER: Final = Struct("=i")


class ForkedCommands:
    """Runner of `kanister-py` commands, one after the other."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            code = f"from tests.forked_commands import serve; serve({theirs.fileno()})"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=REPOSITORY,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def run(
        self,
        words: Sequence[str],
        stdin: bytes,
        environment: Mapping[str, str],
        cwd: Path | None,
        timeout_seconds: float,
    ) -> tuple[int, bytes, bytes]:
        """Run a command; return its exit code, output and error output."""
        start = {"words": words, "environment": dict(environment), "cwd": str(cwd or Path.cwd())}
        with TemporaryFile() as request, TemporaryFile() as out, TemporaryFile() as err:
            with TemporaryFile() as input_file:
                input_file.write(stdin)
                request.write(json.dumps(start).encode())
                for file in (input_file, request):
                    file.seek(0)
                files = [file.fileno() for file in (request, input_file, out, err)]
                socket.send_fds(self._channel, [b"."], files)
            pid = _read_number(self._channel)
            self._channel.settimeout(timeout_seconds)
            try:
                code = _read_number(self._channel)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()

    def close(self) -> None:
        """End the parent process."""
        self._channel.close()
        self._process.wait()


def serve(channel_fd: int) -> None:
    """Fork a command for every request, until the channel is closed."""
    for name in _SHARED:
        import_module(name)
    channel = socket.socket(fileno=channel_fd)
    while files := socket.recv_fds(channel, 1, 4)[1]:
        pid = os.fork()
        if pid == 0:
            channel.close()
            _become_command(*files)
            return
        for file in files:
            os.close(file)
        channel.send(_NUMBER.pack(pid))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        channel.send(_NUMBER.pack(code))


def _read_number(channel: socket.socket) -> int:
    number: int = _NUMBER.unpack(channel.recv(_NUMBER.size))[0]
    return number


def _become_command(request_fd: int, *streams: int) -> None:
    """Run the command in this process, and exit."""
    from kanister_py.cli.main import main

    with os.fdopen(request_fd, "rb") as file:
        request = json.load(file)
    for target, stream_fd in enumerate(streams):
        os.dup2(stream_fd, target)
        os.close(stream_fd)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    # Packages may have been installed since the caches were filled.
    invalidate_caches()
    sys.argv = ["kanister-py", *request["words"]]
    sys.exit(main())
