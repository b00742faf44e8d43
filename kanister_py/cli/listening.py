"""Sockets to listen on, and HTTP servers on them."""

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
def named_in_errors(host: str, port: int) -> Iterator[None]:
    """Convert an OSError of the block into an error that names the address."""
    try:
        yield
    except OSError as error:
        # asyncio and socket add their own text to the message of the system.
        is_name = isinstance(error, socket.gaierror) or not error.errno
        message = (error.strerror or str(error)) if is_name else os.strerror(error.errno or 0)
        raise UsageError(
            f"Cannot listen on {host} port {port}: {message}; choose another --host or --port",
            reason="AddressUnavailable",
        ) from None


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Open a socket that listens on an address."""
    with named_in_errors(host, port):
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        server = socket.create_server(address[:2], family=family, backlog=2048)
    # Connections inherit the option. Without it, the body of a response waits 40 ms until its
    # head is acknowledged: asyncio sets it only on sockets with an explicit protocol.
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with server:
        yield server


def is_loopback(server: socket.socket) -> bool:
    """Return whether only this machine can reach the address of a socket."""
    return ipaddress.ip_address(server.getsockname()[0].partition("%")[0]).is_loopback


@contextmanager
def served_in_thread(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """Serve an app in a thread until the block ends."""
    import uvicorn

    from kanister_py.http_api.server import server_config

    server: uvicorn.Server = uvicorn.Server(server_config(app))
    thread = Thread(target=server.run, args=([listener],), name="http", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(5)
