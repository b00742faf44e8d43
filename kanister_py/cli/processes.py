"""Connection between a server process and the parent process that started it."""

from __future__ import annotations

import argparse
import socket
from typing import Self


class Link:
    """Connection of a server process to its parent process."""

    def __init__(self, descriptor: int, port: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        # Programs that a function starts must not inherit the connection.
        self._socket.set_inheritable(False)
        self.port = port

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `DESCRIPTOR:PORT`."""
        descriptor, _, port = text.partition(":")
        if not (descriptor.isdigit() and port.isdigit()):
            raise argparse.ArgumentTypeError(f"must be DESCRIPTOR:PORT, found {text!r}")
        return cls(int(descriptor), int(port))

    def fileno(self) -> int:
        return self._socket.fileno()

    def tell_ready(self) -> None:
        self._socket.send(b".")
