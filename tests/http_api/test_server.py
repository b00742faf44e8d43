"""Connections that ask for nothing keep nobody from an answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest
import uvicorn
from starlette.applications import Starlette

from kanister_py.http_api.server import server_config

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
WHOLE = HALF + b"Connection: close\r\n\r\n"


@pytest.fixture
def address(sample_app: Starlette) -> Iterator[tuple[str, int]]:
    """Where the endpoint is served, for those who take half a second to ask."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    server = uvicorn.Server(server_config(sample_app, request_seconds=0.5))
    thread = Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[:2]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def opened(address: tuple[str, int], sent: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=60)
    connection.sendall(sent)
    return connection


def answer_of(address: tuple[str, int]) -> bytes:
    with opened(address, WHOLE) as connection, connection.makefile("rb") as answer:
        return answer.readline()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(HALF, id="half of its headers"),
        pytest.param(HALF + b"Content-Length: 9\r\n\r\nhalf", id="half of its body"),
    ],
)
def test_a_request_that_does_not_come_is_not_waited_for(
    address: tuple[str, int], sent: bytes
) -> None:
    with opened(address, sent) as connection, suppress(ConnectionResetError):
        answer = connection.makefile("rb").read()
        assert not answer or sent.endswith(b"half")


def test_health_is_told_beside_more_half_open_connections_than_are_kept(
    address: tuple[str, int],
) -> None:
    held = [opened(address, HALF) for _ in range(450)]
    try:
        assert answer_of(address) == b"HTTP/1.1 200 OK\r\n"
    finally:
        for each in held:
            each.close()
