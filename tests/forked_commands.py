"""Commands in processes of their own, forked from one that has read the code they share.

Most of what a short command costs is the start of Python and reading modules. The process
they are forked from has one thread and runs no command itself; a command begins with the
environment, folder and streams that it is given, as a new process would.
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
# What most commands read; nothing that starts a thread or keeps a connection.
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
    """Runs `kanister-py`, one command after the other."""

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
        """Say how the command ended, and what it wrote to its output and its errors."""
        start = {"words": words, "environment": dict(environment), "cwd": str(cwd or Path.cwd())}
        with TemporaryFile() as asked, TemporaryFile() as out, TemporaryFile() as err:
            with TemporaryFile() as given:
                given.write(stdin)
                asked.write(json.dumps(start).encode())
                for entry in (given, asked):
                    entry.seek(0)
                files = [entry.fileno() for entry in (asked, given, out, err)]
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
        """End the process that commands are forked from."""
        self._channel.close()
        self._process.wait()


def serve(channel_fd: int) -> None:
    """Fork a command for each request, until the asking process has gone."""
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


def _become_command(asked_fd: int, *streams: int) -> None:
    """Run the command in this process, which ends with it."""
    from kanister_py.cli.main import main

    with os.fdopen(asked_fd, "rb") as file:
        asked = json.load(file)
    for at, value in enumerate(streams):
        os.dup2(value, at)
        os.close(value)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    # Packages may have been installed since they were last looked for.
    invalidate_caches()
    sys.argv = ["kanister-py", *asked["words"]]
    sys.exit(main())
