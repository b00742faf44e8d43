"""TLS taken off a connection, so that two threads may read and write it at once.

OpenSSL lets one thread at a time use a connection. A thread of ours is that
one; everybody else has an ordinary pair of sockets.
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
    """Give a socket that says in plain what a secured connection says, for as long as it lives.

    Whoever closes the plain one closes both; where the other side ends the
    connection, the plain one ends too.
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
            # What was closed in good order is told so; a cut is a cut.
            with contextlib.suppress(OSError):
                self._secured.unwrap()
        # Whoever holds the other end of the pair learns of it by the end of the stream.

    def _step(self, selector: selectors.BaseSelector) -> bool:
        """Carry what can be carried; false when one side has ended."""
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
        """Wait until one side has something, or takes what it would not take before."""
        for channel, reads, writes in (
            (self._secured, not self._to_plain, self._to_secured),
            (self._plain, not self._to_secured, self._to_plain),
        ):
            mask = (_READ if reads else 0) | (_WRITE if writes else 0)
            if channel in selector.get_map():
                selector.unregister(channel)
            if mask:
                selector.register(channel, mask)
        # What OpenSSL has read already, no selector sees.
        is_waiting = not self._to_plain and self._secured.pending() > 0
        selector.select(0 if is_waiting else None)
