"""Server that sends arbitrary bytes, for tests of clients."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import NamedTuple

DRIP_SECONDS = 0.05


class Request(NamedTuple):
    """Request as received."""

    method: str
    path: str
    head: str
    body: bytes


Answer = Callable[[Request], Iterable[bytes]]
"""Yields the pieces of a response; an empty piece is a pause. Then the connection is closed."""


class HostileServer(NamedTuple):
    """Address of a local server, and the requests that it received."""

    address: str
    requests: list[Request]


@contextmanager
def hostile_server(answer: Answer, *, tls: ssl.SSLContext | None = None) -> Iterator[HostileServer]:
    """Answer every connection with `answer`, until the end of the block."""
    listening = socket.create_server(("127.0.0.1", 0))
    requests: list[Request] = []
    over = Event()

    def serve(connection: socket.socket) -> None:
        with (
            suppress(OSError, ValueError),
            connection,
            tls.wrap_socket(connection, server_side=True) if tls else connection as opened,
        ):
            opened.settimeout(10)
            request = _read(opened)
            requests.append(request)
            for piece in answer(request):
                if not piece:
                    over.wait(DRIP_SECONDS)
                    if over.is_set():
                        return
                opened.sendall(piece)
            with suppress(OSError):
                opened.shutdown(socket.SHUT_WR)
            while opened.recv(1 << 16):
                pass

    def accept() -> None:
        with suppress(OSError):
            while not over.is_set():
                connection, _ = listening.accept()
                Thread(target=serve, args=(connection,), daemon=True).start()

    Thread(target=accept, daemon=True).start()
    try:
        yield HostileServer(f"127.0.0.1:{listening.getsockname()[1]}", requests)
    finally:
        over.set()
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def _read(connection: socket.socket) -> Request:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(1 << 16)
        if not piece:
            raise ValueError(data)
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    text = head.decode("latin-1")
    method, path, _ = text.split(" ", 2)
    fields = [part.partition(":") for part in text.lower().split("\r\n")]
    length = next((int(value) for name, _, value in fields if name == "content-length"), 0)
    pieces, left = [body], length - len(body)
    while left > 0:
        pieces.append(connection.recv(1 << 16))
        left -= len(pieces[-1])
    return Request(method, path, text, b"".join(pieces))


def http(body: bytes = b"", status: str = "200 OK", **headers: str) -> list[bytes]:
    """Build a valid response. Names of headers have `_` instead of `-`."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ["\r\n".join(lines).encode("latin-1") + b"\r\n\r\n", body]


def dripping(data: bytes) -> Iterator[bytes]:
    """Yield single bytes with pauses between them."""
    for byte in data:
        yield bytes((byte,))
        yield b""
