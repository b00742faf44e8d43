"""HTTP exchange of short requests with an API server.

Most of what a controller spends on a request is what a library for every server in the
world does with it. This speaks with one server that we know: HTTP/1.1, no redirects, no
compression, no cookies. Answers without end, and ways through a proxy, are not its business.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

_PIECE: Final = 64 * 1024
_MOST_HEAD_BYTES: Final = 256 * 1024
_MOST_BODY_BYTES: Final = 1 << 30
_FAIR_BYTES_A_SECOND: Final = 64 * 1024
_END_OF_HEAD: Final = b"\r\n\r\n"
_END_OF_LINE: Final = b"\r\n"
_INTERIM: Final = range(100, 200)
_NO_BODY: Final = frozenset({204, 304})


class ServerAnswer(NamedTuple):
    """The server's answer to a request. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool = True
    """Whether the body came to its end; the status counts all the same."""


class NotReached(Exception):
    """No connection came about; nobody has heard the request."""


class NotAnswered(Exception):
    """The request may have been heard; there is no answer."""


class Way(NamedTuple):
    """Address of the server, and how it proves who it is. Without `tls` it does not."""

    url: str
    tls: ssl.SSLContext | None
    server_name: str
    options: tuple[tuple[int, int, int], ...]


class Exchange:
    """Connections that are kept, for requests from any thread, one at a time on each."""

    def __init__(self, way: Way, most_idle: int) -> None:
        parts = urlsplit(way.url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._netloc = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path.rstrip("/")
        self._way = way
        self._most_idle = most_idle
        self._lock = Lock()
        self._idle: list[_Wire] = []
        self._keeps = True

    def ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        connect_seconds: float,
        answer_seconds: float,
    ) -> ServerAnswer:
        """Put one request, and give the whole answer. `target` is a path with its query.

        `answer_seconds` is the time for all of it; a body that comes fast enough has more.
        """
        message = self._message(method, target, headers, body)
        wire = self._idle_wire() or self._new_wire(connect_seconds)
        is_kept = False
        try:
            answer, is_kept = wire.exchange(message, answer_seconds)
        except (OSError, ValueError) as error:
            raise NotAnswered(_one_line_of(error)) from error
        finally:
            if not is_kept or not self._put_down(wire):
                wire.close()
        return answer

    def close(self) -> None:
        """Let go of connections that nobody uses, and keep none from here on."""
        with self._lock:
            self._keeps = False
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.close()

    def _message(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        lines = [f"{method} {self._prefix}{target} HTTP/1.1", f"Host: {self._netloc}"]
        for name, value in headers.items():
            if "\r" in value or "\n" in value:
                raise NotReached(f"The value of {name} is more than one line")
            lines.append(f"{name}: {value}")
        if body is not None or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body or b'')}")
        head = "\r\n".join(lines).encode("latin-1")
        return b"".join((head, _END_OF_HEAD, body or b""))

    # Connections

    def _idle_wire(self) -> _Wire | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                # The one used last is the least likely to have been closed over there.
                wire = self._idle.pop()
            if not wire.was_dropped():
                return wire
            wire.close()

    def _put_down(self, wire: _Wire) -> bool:
        with self._lock:
            if not self._keeps or len(self._idle) >= self._most_idle:
                return False
            self._idle.append(wire)
            return True

    def _new_wire(self, connect_seconds: float) -> _Wire:
        try:
            made = socket.create_connection((self._host, self._port), connect_seconds)
        except OSError as error:
            raise NotReached(_one_line_of(error)) from error
        try:
            for option in self._way.options:
                made.setsockopt(*option)
            if self._way.tls is not None:
                name = self._way.server_name or self._host
                made = _secured(made, self._way.tls, name, connect_seconds)
        except BaseException as error:
            made.close()
            if isinstance(error, OSError):
                raise NotReached(_one_line_of(error)) from error
            raise
        return _Wire(made)


class _Wire:
    """One connection, and what has come over it and is not read yet."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._held = b""
        self._until = 0.0

    def close(self) -> None:
        with suppress(OSError):
            self.socket.close()

    def was_dropped(self) -> bool:
        """Whether there is something to read where nothing was asked: as a rule, the end."""
        if self._held:
            return True
        from urllib3.util import wait_for_read

        return wait_for_read(self.socket, 0.0)

    def exchange(self, message: bytes, seconds: float) -> tuple[ServerAnswer, bool]:
        """Send a request and read its answer; say whether another one may follow."""
        self._until = monotonic() + seconds
        self.socket.settimeout(seconds)
        with suppress(BrokenPipeError):
            # A server that hangs up on what is too long has often sent why.
            self.socket.sendall(message)
        status, headers, is_persistent = self._head()
        while status in _INTERIM:
            status, headers, is_persistent = self._head()
        try:
            body, is_delimited = self._body(status, headers)
        except (OSError, ValueError):
            return ServerAnswer(status, headers, b"", is_whole=False), False
        return ServerAnswer(status, headers, body), is_persistent and is_delimited

    def _head(self) -> tuple[int, dict[str, str], bool]:
        text = self._up_to(_END_OF_HEAD).decode("latin-1")
        first, *lines = text.split("\r\n")
        protocol, _, rest = first.partition(" ")
        if not protocol.startswith("HTTP/1."):
            raise ValueError("What answers does not speak HTTP")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        connection = headers.get("connection", "").lower()
        is_persistent = protocol != "HTTP/1.0" and connection != "close"
        return int(rest[:3]), headers, is_persistent

    def _body(self, status: int, headers: Mapping[str, str]) -> tuple[bytes, bool]:
        """Read a body; say whether anything but silence for ever marks its end."""
        if status in _NO_BODY:
            return b"", True
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks(), True
        length = headers.get("content-length")
        if length is not None:
            return self._exactly(_size_of(length, 10)), True
        return self._rest(), False

    def _chunks(self) -> bytes:
        pieces, left = [], _MOST_BODY_BYTES
        while size := _size_of(self._up_to(_END_OF_LINE).partition(b";")[0].decode("latin-1"), 16):
            left -= size
            if left < 0:
                raise ValueError("The answer is larger than any")
            pieces.append(self._exactly(size))
            self._exactly(len(_END_OF_LINE))
        while self._up_to(_END_OF_LINE):
            pass
        return b"".join(pieces)

    # Bytes

    def _up_to(self, end: bytes) -> bytes:
        held = self._held
        while (at := held.find(end)) < 0:
            if len(held) > _MOST_HEAD_BYTES:
                raise ValueError("The answer's head has no end")
            held += self._piece()
        self._held = held[at + len(end) :]
        return held[:at]

    def _exactly(self, size: int) -> bytes:
        held = self._held
        if len(held) < size:
            pieces, missing = [held], size - len(held)
            while missing > 0:
                pieces.append(self._piece())
                missing -= len(pieces[-1])
                self._allow_for(pieces[-1])
            held = b"".join(pieces)
        self._held = held[size:]
        return held[:size]

    def _rest(self) -> bytes:
        pieces, self._held = [self._held], b""
        left = _MOST_BODY_BYTES
        while piece := self._received():
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                raise ValueError("The answer is larger than any")
            self._allow_for(piece)
        return b"".join(pieces)

    def _piece(self) -> bytes:
        piece = self._received()
        if not piece:
            raise ConnectionResetError("The server has hung up")
        return piece

    def _received(self) -> bytes:
        left = self._until - monotonic()
        if left <= 0:
            raise TimeoutError("The answer did not come to its end in time")
        self.socket.settimeout(left)
        return self.socket.recv(_PIECE)

    def _allow_for(self, piece: bytes) -> None:
        """Give a long body the time that it takes, as long as it comes at a fair pace."""
        self._until += len(piece) / _FAIR_BYTES_A_SECOND


def _size_of(text: str, base: int) -> int:
    """Read how long something is that comes."""
    digits = text.strip()
    if not digits.isalnum() or len(digits) > 16:
        raise ValueError("The answer says no length")
    size = int(digits, base)
    if size > _MOST_BODY_BYTES:
        raise ValueError("The answer is larger than any")
    return size


def _secured(plain: socket.socket, tls: ssl.SSLContext, name: str, seconds: float) -> socket.socket:
    """Agree on TLS, all of it within a time."""
    import ssl

    until = monotonic() + seconds
    made = tls.wrap_socket(plain, server_hostname=name, do_handshake_on_connect=False)
    try:
        made.setblocking(False)
        while True:
            try:
                made.do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wanted:
                _wait_for(made, until, is_reading=isinstance(wanted, ssl.SSLWantReadError))
                continue
            return made
    except BaseException:
        made.close()
        raise


def _wait_for(connected: socket.socket, until: float, *, is_reading: bool) -> None:
    from urllib3.util import wait_for_read, wait_for_write

    left = until - monotonic()
    if left <= 0 or not (wait_for_read if is_reading else wait_for_write)(connected, left):
        raise TimeoutError("TLS was not agreed on in time")


def _one_line_of(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
