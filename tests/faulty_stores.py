"""Proxy that injects faults into requests for an object store."""

from __future__ import annotations

import re
import socket
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

import urllib3

from kanister_py.core.kube.locations import Location

ALWAYS = 1_000_000


class Fault(StrEnum):
    """Fault of a request or a response."""

    INTERNAL = "500"
    SLOW_DOWN = "503, slow down"
    FULL = "507, full"
    HALF = "half a body"
    LOST = "a reset, after it was done"
    FLIPPED = "a flipped byte"
    """In the body of the request or of the response."""


_ANSWERS = {
    Fault.INTERNAL: (500, "InternalError", "We failed."),
    Fault.SLOW_DOWN: (503, "SlowDown", "Reduce your request rate."),
    Fault.FULL: (507, "QuotaExceeded", "There is no room."),
}
_REPOSITORY_FOLDER = re.compile(r"/(config|keys|locks|index|data|snapshots)(?:/|$|\?|%2F)")


class Faults:
    """Sequence of faults for requests whose kind matches `pattern`.

    The kind of a request is its method and the folder of a restic repository, such as `PUT data`,
    or else only the method. Lists count as `LIST`. For every kind, the first `skipped` requests
    succeed; the next ones fail with one fault after the other, or `times` with the same fault.
    """

    def __init__(self, *faults: Fault, times: int = 0, pattern: str = "", skipped: int = 0) -> None:
        self._faults, self._times = faults, times or len(faults)
        self._pattern, self._skipped = pattern, skipped
        self._counts: Counter[str] = Counter()
        self._lock = Lock()
        self.injected: Counter[str] = Counter()

    def next_fault(self, method: str, path: str) -> Fault | None:
        """Return the fault for a request, or None, and count the request."""
        method = "LIST" if method == "GET" and "list-type=" in path else method
        match = _REPOSITORY_FOLDER.search(path)
        kind = f"{method} {match[1]}" if match else method
        if not re.search(self._pattern, kind):
            return None
        with self._lock:
            number = self._counts[kind] - self._skipped
            self._counts[kind] += 1
            if not 0 <= number < self._times:
                return None
            self.injected[kind] += 1
        return self._faults[number % len(self._faults)]


@contextmanager
def faulty(location: Location, faults: Faults) -> Iterator[Location]:
    """Run a proxy for a store that fails some requests."""
    target = urlsplit(location.endpoint)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            fault = faults.next_fault(self.command, self.path)
            if fault in _ANSWERS:
                status, code, message = _ANSWERS[fault]
                document = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
                self.answer(status, {}, document.encode())
                return
            if fault is Fault.FLIPPED:
                body = _flipped(body)
            with urllib3.PoolManager() as pool:
                # Keep the Host header, which is part of the signature.
                response = pool.request(
                    self.command,
                    f"{target.scheme}://{target.netloc}{self.path}",
                    headers=dict(self.headers.items()),
                    body=body,
                    redirect=False,
                    retries=False,
                    decode_content=False,
                )
            data = response.data
            headers = {
                key: value
                for key, value in response.headers.items()
                if key.lower() not in {"content-length", "transfer-encoding", "connection"}
            }
            length = response.headers.get("content-length", str(len(data)))
            if fault is Fault.LOST or (fault is Fault.HALF and len(data) < 2):
                self.reset()
            elif fault is Fault.HALF:
                self.answer(response.status, headers, data[: len(data) // 2], length)
                self.reset()
            else:
                data = _flipped(data) if fault is Fault.FLIPPED else data
                self.answer(response.status, headers, data, length)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do  # noqa: N815 - names required by http.server

        def answer(
            self, status: int, headers: Mapping[str, str], body: bytes, length: str = ""
        ) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("content-length", length or str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def reset(self) -> None:
            # Closing with a linger time of zero sends a reset.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Write no log."""

    class Server(ThreadingHTTPServer):
        def shutdown_request(self, request: Any) -> None:
            # Do not shut down first, which would end the connection without a reset.
            self.close_request(request)

    server = Server(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield location._replace(endpoint=f"http://127.0.0.1:{server.server_port}{target.path}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _flipped(data: bytes) -> bytes:
    flipped, middle = bytearray(data), len(data) // 2
    for place in range(middle, min(middle + 1, len(data))):
        flipped[place] ^= 1
    return bytes(flipped)
