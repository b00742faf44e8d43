"""A caller of gRPC functions with minimal cost, which repeats the same few messages.

It must be faster than any server with a core of its own, so calls encode and decode nothing, and
of a response only the arrival of a message and the end of the stream are checked.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from itertools import cycle
from select import EPOLLIN, epoll
from struct import Struct
from typing import Final

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_FIRST_WINDOW: Final = 65_535
_WIDE: Final = 1 << 30
_HEAD: Final = Struct(">BHBBI")
"""Frame header: three bytes of length, the kind, the flags and the stream."""
_NUMBER: Final = Struct(">I")


def calls_a_second(
    port: int, path: str, messages: Sequence[bytes], *, calls: int, callers: int
) -> float:
    """Return the calls a second of several callers with a connection each."""
    calls_per_caller = calls // callers
    open_ = [_Connection(port, path, messages, calls_per_caller) for _ in range(callers)]
    by_file = {connection.fileno(): connection for connection in open_}
    with epoll() as poll:
        for file in by_file:
            poll.register(file, EPOLLIN)
        start = time.perf_counter()
        for connection in open_:
            connection.call()
        while by_file:
            for file, _ in poll.poll():
                if by_file[file].is_done():
                    poll.unregister(file)
                    by_file.pop(file).close()
        return calls_per_caller * callers / (time.perf_counter() - start)


class _Connection:
    """A connection with one call in progress at a time."""

    def __init__(self, port: int, path: str, messages: Sequence[bytes], calls: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = _literals(path, f"127.0.0.1:{port}")
        bodies = [b"\0" + _NUMBER.pack(len(message)) + message for message in messages]
        assert max(map(len, bodies)) < 1 << 14, "a message must fit into one frame"
        self._bodies = cycle(bodies)
        self._body = next(self._bodies)
        self._left = calls
        self._stream = -1
        self._window = _FIRST_WINDOW
        self._has_answered = self._is_in_progress = False
        self._received = b""
        wide = Struct(">HI").pack(4, _WIDE)
        self._socket.sendall(
            _PREFACE
            + _frame(_SETTINGS, 0, 0, wide)
            + _frame(_WINDOW_UPDATE, 0, 0, _NUMBER.pack(_WIDE))
        )

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def call(self) -> None:
        self._stream += 2
        self._has_answered, self._is_in_progress = False, True
        self._window -= len(self._body)
        self._socket.sendall(
            _frame(_HEADERS, _END_HEADERS, self._stream, self._head)
            + _frame(_DATA, _END_STREAM, self._stream, self._body)
        )
        self._body = next(self._bodies)

    def is_done(self) -> bool:
        """Read, and call again after a response; return whether the last call has ended."""
        chunk = self._socket.recv(1 << 16)
        assert chunk, "the server has closed the connection"
        received, at = self._received + chunk, 0
        while len(received) - at >= 9:
            high, low, kind, flags, stream = _HEAD.unpack_from(received, at)
            end = at + 9 + (high << 16 | low)
            if len(received) < end:
                break
            self._process(kind, flags, stream, received[at + 9 : end])
            at = end
        self._received = received[at:]
        if self._left and not self._is_in_progress and self._window >= len(self._body):
            self.call()
        return not self._left

    def _process(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        assert kind != _GOAWAY, "the server has sent GOAWAY"
        if kind == _DATA:
            self._has_answered = self._has_answered or bool(payload)
        elif kind == _SETTINGS and not flags & _ACK:
            self._socket.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._socket.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE and not stream:
            self._window += _NUMBER.unpack(payload)[0]
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            assert self._has_answered, "a call was refused"
            self._is_in_progress = False
            self._left -= 1


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return _HEAD.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def _literals(path: str, authority: str) -> bytes:
    """Encode the headers of a call without dynamic table entries."""
    names = {b"\x04": path, b"\x01": authority, b"\x0f\x10": "application/grpc"}
    literals = b"".join(name + _text(value) for name, value in names.items())
    return b"\x83\x86" + literals + b"\x00" + _text("te") + _text("trailers")


def _text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()
