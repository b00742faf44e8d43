"""Free local ports, for servers that cannot choose a port themselves."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_LOWEST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_CLAIMS: list[socket.socket] = []


def free_port() -> int:
    """Return a free loopback port outside the range of ephemeral ports.

    The kernel could assign an ephemeral port to another process before the server starts. An
    abstract socket reserves the port among test processes; it disappears with this process.
    """
    try:
        ephemeral_start = int(_RANGE.read_text().split()[0])
    except OSError:
        ephemeral_start = 32_768
    while True:
        port = random.randrange(_LOWEST, max(ephemeral_start, _LOWEST + 1000))
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
