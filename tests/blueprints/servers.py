"""Real servers for the time of a test: on a loopback port, in a folder of their own."""

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
"""What the manifests beside the blueprints say."""

_START_SECONDS = 120


def program(name: str, package: str, *folders: str) -> str:
    """Find a program where pods find theirs, or skip the test and say which package brings it."""
    found = shutil.which(name, path=os.pathsep.join([DEFAULT_PATH, *folders]))
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install {package}")
    return found


@dataclass
class Server:
    """A server that runs, and a client for it."""

    port: int
    client: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)

    def ask(self, text: str) -> str:
        """Have the client carry out a script, and give what it prints."""
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
    """Give a new folder that a user owns and may reach, and remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="kanister-py-server-"))
    if user is not None:
        shutil.chown(folder, user)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def unprivileged(name: str) -> str | None:
    """Say as whom a server must run that refuses to run as root; None for our own user."""
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
    """Run a server until the block ends; it begins when the server has said it is ready."""
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
