"""Command streams from an API server that never closes the connection."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.cluster_kube.connection import ClusterChoice, Connection
from kanister_py.adapters.cluster_kube.error_responses import Subject
from kanister_py.adapters.cluster_kube.requests import Requests, Timing
from kanister_py.adapters.cluster_kube.sessions import KubeExecSession, open_session
from tests.adapters.kubeconfigs import kubeconfig

PATIENCE_SECONDS = 180.0
# Longer than the test: a ping does not unblock the reader.
TIMING = Timing(ping=10 * PATIENCE_SECONDS)


class Talker:
    """Upgrades one connection to WebSocket, sends its messages, and keeps the connection open."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = messages
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as heard:
            lines = list(iter(heard.readline, b"\r\n"))
            (key,) = (
                line.split()[1] for line in lines if line.lower().startswith(b"sec-websocket-key")
            )
            accepted = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
            head = (
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n"
                b"Sec-WebSocket-Accept: %b\r\n\r\n" % base64.b64encode(accepted)
            )
            frames = [bytes((0x82, len(message))) + message for message in self._messages]
            connection.sendall(b"".join([head, *frames]))
            try:
                # The close frame is received and not answered.
                while heard.read1():
                    pass
            except ConnectionResetError:
                pass

    def close(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the connection stays open"
        self._listener.close()


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def session_with(cleanup: ExitStack, folder: Path, *messages: bytes) -> KubeExecSession:
    talker = Talker(*messages)
    cleanup.callback(talker.close)
    choice = ClusterChoice(kubeconfig=str(kubeconfig(folder, talker.url)))
    requests = Requests(Connection(choice, SystemClock(), 1), SystemClock(), TIMING)
    cleanup.callback(requests.close)
    session = open_session(requests, "/exec", Subject("pods", "p"), [("command", "x")])
    cleanup.enter_context(session)
    return session


def test_close_unblocks_the_reader_of_an_unresponsive_server(
    cleanup: ExitStack, tmp_path: Path
) -> None:
    session = session_with(cleanup, tmp_path, b"\x01hello")
    read, arrived = list[bytes](), threading.Event()

    def follow() -> None:
        for chunk in session:
            read.append(chunk.data)
            arrived.set()

    reader = threading.Thread(target=follow)
    reader.start()
    assert arrived.wait(PATIENCE_SECONDS)
    closers = [threading.Thread(target=session.close) for _ in range(2)]
    for closer in closers:
        closer.start()
    for closer in (*closers, reader):
        closer.join(PATIENCE_SECONDS)
        assert not closer.is_alive()
    assert read == [b"hello"]
    assert session.exit_code is None


def test_command_stream_with_more_than_a_thousand_open_files(
    cleanup: ExitStack, tmp_path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 2000 if before[1] == resource.RLIM_INFINITY else min(2000, before[1])
    if most < 2000:
        pytest.skip(f"this machine lets nobody hold more than {most} files")
    if before[0] < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
        cleanup.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
    for _ in range(1100):
        cleanup.callback(os.close, os.open(os.devnull, os.O_RDONLY))
    ended = b"\x03" + json.dumps({"status": "Success"}).encode()
    session = session_with(cleanup, tmp_path, b"\x01hello", ended)
    assert [closer.data for closer in session] == [b"hello"]
    assert session.exit_code == 0
