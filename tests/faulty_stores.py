"""Object stores that fail, for tests: a proxy that does to requests what a bad day does."""

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
    """What may befall a request."""

    INTERNAL = "500"
    SLOW_DOWN = "503, slow down"
    FULL = "507, full"
    HALF = "half a body"
    LOST = "a reset, after it was done"
    FLIPPED = "a flipped byte"
    """Of what was asked for, or of what is written."""


_ANSWERS = {
    Fault.INTERNAL: (500, "InternalError", "We failed."),
    Fault.SLOW_DOWN: (503, "SlowDown", "Reduce your request rate."),
    Fault.FULL: (507, "QuotaExceeded", "There is no room."),
}
_MOMENT = re.compile(r"/(config|keys|locks|index|data|snapshots)(?:/|$|\?|%2F)")


class Faults:
    """Faults, and whom they befall: requests of every moment that `meant` is found in.

    A moment is the method and the folder of a repository, such as `PUT data`; elsewhere
    it is the method alone. Lists count as `LIST`. Of each, the first `spared` requests go
    well, and the next meet one fault after the other, or `times` the same.
    """

    def __init__(self, *faults: Fault, times: int = 0, meant: str = "", spared: int = 0) -> None:
        self._faults, self._times = faults, times or len(faults)
        self._meant, self._spared = meant, spared
        self._all: Counter[str] = Counter()
        self._lock = Lock()
        self.seen: Counter[str] = Counter()

    def befalling(self, method: str, path: str) -> Fault | None:
        """Say what is to befall this request, and count it."""
        method = "LIST" if method == "GET" and "list-type=" in path else method
        found = _MOMENT.search(path)
        moment = f"{method} {found[1]}" if found else method
        if not re.search(self._meant, moment):
            return None
        with self._lock:
            number = self._all[moment] - self._spared
            self._all[moment] += 1
            if not 0 <= number < self._times:
                return None
            self.seen[moment] += 1
        return self._faults[number % len(self._faults)]


@contextmanager
def faulty(location: Location, faults: Faults) -> Iterator[Location]:
    """Stand between a client and a store, and fail some of its requests."""
    there = urlsplit(location.endpoint)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            fault = faults.befalling(self.command, self.path)
            if fault in _ANSWERS:
                status, code, message = _ANSWERS[fault]
                document = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
                self.answer(status, {}, document.encode())
                return
            if fault is Fault.FLIPPED:
                body = _flipped(body)
            with urllib3.PoolManager() as pool:
                # The host is what the signature was made for.
                found = pool.request(
                    self.command,
                    f"{there.scheme}://{there.netloc}{self.path}",
                    headers=dict(self.headers.items()),
                    body=body,
                    redirect=False,
                    retries=False,
                    decode_content=False,
                )
            data = found.data
            headers = {
                key: value
                for key, value in found.headers.items()
                if key.lower() not in {"content-length", "transfer-encoding", "connection"}
            }
            length = found.headers.get("content-length", str(len(data)))
            if fault is Fault.LOST or (fault is Fault.HALF and len(data) < 2):
                self.reset()
            elif fault is Fault.HALF:
                self.answer(found.status, headers, data[: len(data) // 2], length)
                self.reset()
            else:
                data = _flipped(data) if fault is Fault.FLIPPED else data
                self.answer(found.status, headers, data, length)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do  # noqa: N815 - as the library wants

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
            # To linger for no time sends a reset instead of an end.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def shutdown_request(self, request: Any) -> None:
            # Without saying before that nothing more comes: a reset would be an end then.
            self.close_request(request)

    server = Server(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield location._replace(endpoint=f"http://127.0.0.1:{server.server_port}{there.path}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _flipped(data: bytes) -> bytes:
    flipped, middle = bytearray(data), len(data) // 2
    for place in range(middle, min(middle + 1, len(data))):
        flipped[place] ^= 1
    return bytes(flipped)
