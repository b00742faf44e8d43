"""Addresses to listen on, taken before the work for them is done."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from kanister_py.core.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@contextmanager
def naming(host: str, port: int) -> Iterator[None]:
    """Name an address in the error, where the block cannot take it to listen on."""
    try:
        yield
    except OSError as error:
        # asyncio and socket add their own words to what the system says.
        is_name = isinstance(error, socket.gaierror) or not error.errno
        why = (error.strerror or str(error)) if is_name else os.strerror(error.errno or 0)
        raise UsageError(
            f"Cannot listen on {host} port {port}: {why}; choose another --host or --port",
            reason="AddressUnavailable",
        ) from None


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    with naming(host, port):
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        taken = socket.create_server(address[:2], family=family, backlog=2048)
    # Connections inherit it. Without it, the body of an answer waits 40 ms for its head to be
    # confirmed: asyncio sets it only on sockets that say which protocol they are made for.
    taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with taken:
        yield taken


def is_loopback(taken: socket.socket) -> bool:
    """Say whether only this machine can reach an address."""
    return ipaddress.ip_address(taken.getsockname()[0].partition("%")[0]).is_loopback


@contextmanager
def served(app: ASGIApp, taken: socket.socket) -> Iterator[None]:
    """Serve an app in a thread for as long as the block lasts."""
    import uvicorn

    from kanister_py.http_api.server import server_config

    server: uvicorn.Server = uvicorn.Server(server_config(app))
    thread = Thread(target=server.run, args=([taken],), name="http", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(5)
