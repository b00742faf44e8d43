"""WebSocket frames on the server side."""

from __future__ import annotations

import base64
import hashlib
import struct
import threading
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024


class Stream(Protocol):
    """A byte stream that reads and writes exact amounts."""

    def read(self, size: int, /) -> bytes: ...

    def write(self, data: bytes, /) -> object: ...

    def flush(self) -> None: ...


class Opcode(IntEnum):
    """Opcodes of frames."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class _Frame(NamedTuple):
    opcode: int
    is_last: bool
    data: bytes


class ConnectionLost(Exception):
    """The other side disconnected in the middle of a message."""


def accept_key(key: str) -> str:
    """Return the `Sec-WebSocket-Accept` for a client's `Sec-WebSocket-Key`."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


class WebSocket:
    """Messages over an upgraded connection. Any thread may send."""

    def __init__(self, reader: Stream, writer: Stream) -> None:
        self._reader = reader
        self._writer = writer
        self._lock = threading.Lock()
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield messages until the client closes; pings are answered.

        Raises `ConnectionLost` if the connection ends without a close frame.
        """
        message = b""
        while True:
            frame = self._read_frame()
            if frame.opcode == Opcode.CLOSE:
                self.close()
                return
            if frame.opcode == Opcode.PING:
                self._write_frame(Opcode.PONG, frame.data)
            elif frame.opcode != Opcode.PONG:
                message += frame.data
                if len(message) > _MAX_MESSAGE_BYTES:
                    raise ConnectionLost("a message is too long")
                if frame.is_last:
                    yield message
                    message = b""

    def send(self, data: bytes) -> None:
        """Send one message; raises `ConnectionLost` if the client has disconnected."""
        self._write_frame(Opcode.BINARY, data)

    def close(self, code: int = 1000) -> None:
        """Send a close frame, once."""
        with self._lock:
            if self._is_closed:
                return
        try:
            self._write_frame(Opcode.CLOSE, struct.pack(">H", code))
        except ConnectionLost:
            return
        finally:
            self._is_closed = True

    def _read_frame(self) -> _Frame:
        first, second = self._read(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack(">H", self._read(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self._read(8))
        if size > _MAX_MESSAGE_BYTES:
            raise ConnectionLost("a frame is too long")
        mask = self._read(4) if second & 0x80 else b""
        data = self._read(size)
        if mask and data:
            repeated = (mask * (size // 4 + 1))[:size]
            data = (int.from_bytes(data) ^ int.from_bytes(repeated)).to_bytes(size)
        return _Frame(first & 0x0F, bool(first & 0x80), data)

    def _read(self, size: int) -> bytes:
        try:
            data = self._reader.read(size) if size else b""
        except (OSError, ValueError) as error:
            raise ConnectionLost(str(error)) from error
        if len(data) < size:
            raise ConnectionLost("the connection ended without a close")
        return data

    def _write_frame(self, opcode: Opcode, data: bytes) -> None:
        size = len(data)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([size])
        elif size < 1 << 16:
            head += struct.pack(">BH", 126, size)
        else:
            head += struct.pack(">BQ", 127, size)
        with self._lock:
            if self._is_closed:
                raise ConnectionLost("the connection was closed")
            try:
                self._writer.write(head + data)
                self._writer.flush()
            except (OSError, ValueError) as error:
                raise ConnectionLost(str(error)) from error
