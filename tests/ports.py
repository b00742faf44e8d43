"""Free ports of this machine, for servers that cannot choose one themselves."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_LOWEST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_CLAIMS: list[socket.socket] = []


def free_port() -> int:
    """Find a port on loopback that nobody has, and that nobody is given who asks for any.

    Between this and the server's start somebody else could be given one of those. Other
    test processes are told by a name in the kernel, which is gone with this process.
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
