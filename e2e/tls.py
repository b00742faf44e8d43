"""TLS termination of one connection, so that two threads can read and write it at once.

OpenSSL allows only one thread at a time to use a connection. A thread of this module does
so; all others use an ordinary pair of sockets.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
from typing import Final

_PIECE: Final = 64 * 1024
_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE


def unwrap(secured: ssl.SSLSocket) -> socket.socket:
    """Yield a plain socket for a TLS connection, for the duration of the block.

    Closing the plain socket closes both; if the other side ends the connection, the plain
    socket is closed as well.
    """
    ours, theirs = socket.socketpair()
    threading.Thread(target=_Pump(secured, ours).run, name="tls", daemon=True).start()
    return theirs


class _Pump:
    def __init__(self, secured: ssl.SSLSocket, plain: socket.socket) -> None:
        self._secured = secured
        self._plain = plain
        self._to_secured = b""
        self._to_plain = b""
        secured.setblocking(False)
        plain.setblocking(False)

    def run(self) -> None:
        with (
            self._secured,
            self._plain,
            selectors.DefaultSelector() as selector,
            contextlib.suppress(OSError),
        ):
            while self._step(selector):
                pass
            # A TLS close is passed on as the end of the stream; a reset is passed on as a reset.
            with contextlib.suppress(OSError):
                self._secured.unwrap()
        # The holder of the other socket sees the end of the stream.

    def _step(self, selector: selectors.BaseSelector) -> bool:
        """Copy available data in both directions; returns False when one side has ended."""
        self._wait(selector)
        if not self._to_plain:
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self._to_plain = self._secured.recv(_PIECE)
                if not self._to_plain:
                    return False
        if self._to_plain:
            with contextlib.suppress(BlockingIOError):
                self._to_plain = self._to_plain[self._plain.send(self._to_plain) :]
        if not self._to_secured:
            with contextlib.suppress(BlockingIOError):
                self._to_secured = self._plain.recv(_PIECE)
                if not self._to_secured:
                    return False
        if self._to_secured:
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self._to_secured = self._to_secured[self._secured.send(self._to_secured) :]
        return True

    def _wait(self, selector: selectors.BaseSelector) -> None:
        """Wait until one side has data, or accepts data again."""
        for channel, reads, writes in (
            (self._secured, not self._to_plain, self._to_secured),
            (self._plain, not self._to_secured, self._to_plain),
        ):
            mask = (_READ if reads else 0) | (_WRITE if writes else 0)
            if channel in selector.get_map():
                selector.unregister(channel)
            if mask:
                selector.register(channel, mask)
        # Data that OpenSSL has already buffered is invisible to the selector.
        is_waiting = not self._to_plain and self._secured.pending() > 0
        selector.select(0 if is_waiting else None)
