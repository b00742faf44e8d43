"""Free ports of this machine, for servers that cannot choose one themselves."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_LOWEST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_CLAIMS: list[socket.socket] = []


def free_port() -> int:
    """Return a port on loopback that is free and outside of the range for ephemeral ports.

    To avoid races between test processes, the port is reserved by an abstract socket, which
    disappears with this process.
    """
    try:
        given_out = int(_RANGE.read_text().split()[0])
    except OSError:
        given_out = 32_768
    while True:
        port = random.randrange(_LOWEST, max(given_out, _LOWEST + 1000))
        claim = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe:
            try:
                claim.bind(f"\0kanister-py-test-port-{port}")
                probe.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
        _CLAIMS.append(claim)
        return port
