"""Link between one of several processes of a server and the process that started it."""

from __future__ import annotations

import argparse
from typing import Self


class Link:
    """Link of one of several processes to the one that has started it."""

    def __init__(self, descriptor: int, port: int) -> None:
        import socket

        self._socket = socket.socket(fileno=descriptor)
        # Programs that a function starts have nothing to do with it.
        self._socket.set_inheritable(False)
        self.port = port

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `DESCRIPTOR:PORT`."""
        descriptor, _, port = text.partition(":")
        if not (descriptor.isdigit() and port.isdigit()):
            raise argparse.ArgumentTypeError(f"must be DESCRIPTOR:PORT, found {text!r}")
        return cls(int(descriptor), int(port))

    def fileno(self) -> int:
        return self._socket.fileno()

    def tell_ready(self) -> None:
        self._socket.send(b".")
