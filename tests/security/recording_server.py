"""API server that answers 404 to everything and records the bytes of each request."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice
from kanister_py.adapters.cluster_kube.requests import Timing
from kanister_py.core.retries import NO_LIMIT, RetryRule

_BRIEF = Timing(patience=0.2, first_patience=0.2, pauses=RetryRule(NO_LIMIT, 0.05))
_BODY = json.dumps({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"})
_NOT_FOUND = (
    f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(_BODY)}\r\n"
    f"Content-Type: application/json\r\n\r\n{_BODY}"
).encode()


class RecordingServer(NamedTuple):
    """Address of a server, the recorded heads of requests, and a client."""

    url: str
    heads: list[str]
    cluster: KubeCluster

    @property
    def request_lines(self) -> list[str]:
        return [head.partition("\r\n")[0] for head in self.heads]


@contextmanager
def recording_server(folder: Path) -> Iterator[RecordingServer]:
    """Serve until the end of the block, with persistent connections."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    heads: list[str] = []

    def serve(connection: socket.socket) -> None:
        held = b""
        with suppress(OSError), connection:
            while True:
                while b"\r\n\r\n" not in held:
                    piece = connection.recv(1 << 16)
                    if not piece:
                        return
                    held += piece
                head, _, held = held.partition(b"\r\n\r\n")
                text = head.decode("latin-1")
                heads.append(text)
                length = _length_of(text)
                while len(held) < length:
                    held += connection.recv(1 << 16)
                held = held[length:]
                connection.sendall(_NOT_FOUND)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                Thread(target=serve, args=(connection,), daemon=True).start()

    Thread(target=accept, daemon=True).start()
    with KubeCluster(ClusterChoice(str(_kubeconfig(folder, url))), timing=_BRIEF) as cluster:
        try:
            yield RecordingServer(url, heads, cluster)
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()


def _length_of(head: str) -> int:
    for line in head.lower().split("\r\n"):
        name, _, value = line.partition(":")
        if name == "content-length":
            return int(value)
    return 0


def _kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    config = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "secret-token"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(config))
    return path
