"""Real servers for the duration of a test, on a loopback port and in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kanister_py.embedded.pods.environment import DEFAULT_PATH

PASSWORD = "change-me"
"""Names in the manifests of the blueprints."""

_START_SECONDS = 120


def program(name: str, package: str, *folders: str) -> str:
    """Return the path of a program, or skip the test and name the package that contains it."""
    path = shutil.which(name, path=os.pathsep.join([DEFAULT_PATH, *folders]))
    if path is None:
        pytest.skip(f"{name} is not installed: apt-get install {package}")
    return path


@dataclass
class Server:
    """A running server, and its client program."""

    port: int
    client: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)

    def ask(self, text: str) -> str:
        """Run a script in the client, and return its output."""
        done = subprocess.run(
            list(self.client),
            input=text.encode(),
            capture_output=True,
            env={**os.environ, **self.env},
            check=False,
            timeout=_START_SECONDS,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape")


@contextmanager
def folder_for(user: str | None) -> Iterator[Path]:
    """Create a folder that a user owns and can access, and remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="kanister-py-server-"))
    if user is not None:
        shutil.chown(folder, user)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def unprivileged(name: str) -> str | None:
    """Return a user for servers that refuse to run as root; None for the current user."""
    if os.getuid() != 0:
        return None
    users = {user.pw_name for user in pwd.getpwall()}
    return name if name in users else "nobody"


def run_as(user: str | None, *words: str, text: str = "") -> None:
    done = subprocess.run(
        words, input=text, text=True, capture_output=True, user=user, cwd="/", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def running(words: Sequence[str], user: str | None, ready: str, stop_signal: int) -> Iterator[None]:
    """Run a server during the block, which begins when the server has printed that it is ready."""
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        user=user,
        cwd="/",
        start_new_session=True,
    )
    assert process.stdout is not None
    stream = process.stdout
    output: list[str] = []
    is_ready = threading.Event()

    def read() -> None:
        for line in stream:
            output.append(line.decode("utf-8", "replace"))
            if ready in output[-1]:
                is_ready.set()
        is_ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert is_ready.wait(_START_SECONDS), "".join(output)
        assert process.poll() is None, "".join(output)
        yield
    finally:
        process.send_signal(stop_signal)
        try:
            process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        stream.close()
