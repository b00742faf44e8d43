"""A caller of gRPC functions that costs next to nothing: the same few messages over and over.

What answers is to be the slower one, even with one core to itself. So nothing is encoded or
decoded in a call, and of an answer no more is read than that a message came, and its end.
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
"""Of a frame: three bytes of length, its kind, its flags, and of which stream it is."""
_NUMBER: Final = Struct(">I")


def calls_a_second(
    port: int, path: str, messages: Sequence[bytes], *, calls: int, callers: int
) -> float:
    """Have some callers, each on a connection of its own, call as fast as they are answered."""
    each = calls // callers
    open_ = [_Connection(port, path, messages, each) for _ in range(callers)]
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
        return each * callers / (time.perf_counter() - start)


class _Connection:
    """One connection, with one call under way at a time."""

    def __init__(self, port: int, path: str, messages: Sequence[bytes], calls: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = _literals(path, f"127.0.0.1:{port}")
        bodies = [b"\0" + _NUMBER.pack(len(message)) + message for message in messages]
        assert max(map(len, bodies)) < 1 << 14, "each must fit into one frame"
        self._bodies = cycle(bodies)
        self._body = next(self._bodies)
        self._left = calls
        self._stream = -1
        self._window = _FIRST_WINDOW
        self._has_answered = self._is_under_way = False
        self._came = b""
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
        self._has_answered, self._is_under_way = False, True
        self._window -= len(self._body)
        self._socket.sendall(
            _frame(_HEADERS, _END_HEADERS, self._stream, self._head)
            + _frame(_DATA, _END_STREAM, self._stream, self._body)
        )
        self._body = next(self._bodies)

    def is_done(self) -> bool:
        """Read what has come, call again after an answer; say whether that was the last one."""
        more = self._socket.recv(1 << 16)
        assert more, "the server has hung up"
        came, at = self._came + more, 0
        while len(came) - at >= 9:
            high, low, kind, flags, stream = _HEAD.unpack_from(came, at)
            end = at + 9 + (high << 16 | low)
            if len(came) < end:
                break
            self._take(kind, flags, stream, came[at + 9 : end])
            at = end
        self._came = came[at:]
        if self._left and not self._is_under_way and self._window >= len(self._body):
            self.call()
        return not self._left

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        assert kind != _GOAWAY, "the server wants no more calls"
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
            self._is_under_way = False
            self._left -= 1


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return _HEAD.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def _literals(path: str, authority: str) -> bytes:
    """Write the headers of a call so that a server need remember none of them."""
    names = {b"\x04": path, b"\x01": authority, b"\x0f\x10": "application/grpc"}
    made = b"".join(name + _text(value) for name, value in names.items())
    return b"\x83\x86" + made + b"\x00" + _text("te") + _text("trailers")


def _text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()
