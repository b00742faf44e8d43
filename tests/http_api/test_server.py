"""HTTP servers: limits on incomplete requests, and TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.certificates import KeyPair
from kanister_py.http_api.server import TlsServer, server_config

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
REQUEST = HALF + b"Connection: close\r\n\r\n"
HOUR = timedelta(hours=1)


@pytest.fixture
def address(sample_app: Starlette) -> Iterator[tuple[str, int]]:
    """Address of an endpoint that closes connections without a request after half a second."""
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


def connect(address: tuple[str, int], data: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=60)
    connection.sendall(data)
    return connection


def status_line_of(address: tuple[str, int]) -> bytes:
    with connect(address, REQUEST) as connection, connection.makefile("rb") as response:
        return response.readline()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(HALF, id="half of its headers"),
        pytest.param(HALF + b"Content-Length: 9\r\n\r\nhalf", id="half of its body"),
    ],
)
def test_a_connection_with_an_incomplete_request_is_closed(
    address: tuple[str, int], data: bytes
) -> None:
    with connect(address, data) as connection, suppress(ConnectionResetError):
        response = connection.makefile("rb").read()
        assert not response or data.endswith(b"half")


def test_health_is_served_although_too_many_connections_are_half_open(
    address: tuple[str, int],
) -> None:
    connections = [connect(address, HALF) for _ in range(450)]
    try:
        assert status_line_of(address) == b"HTTP/1.1 200 OK\r\n"
    finally:
        for connection in connections:
            connection.close()


# TLS


@pytest.fixture(scope="module")
def certificates() -> X509Certificates:
    return X509Certificates(SystemClock())


@pytest.fixture(scope="module")
def authority(certificates: X509Certificates) -> KeyPair:
    return certificates.new_authority("test", HOUR)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


async def scheme_of(request: Request) -> PlainTextResponse:
    return PlainTextResponse(request.url.scheme)


APP = Starlette(routes=[Route("/healthz", scheme_of)])


def write_pair(folder: Path, pair: KeyPair) -> Path:
    file = folder / "client.pem"
    file.write_text(pair.key + pair.certificate)
    return file


def connect_tls(
    address: tuple[str, int], authority: KeyPair, client: Path | None = None
) -> ssl.SSLSocket:
    context = ssl.create_default_context(cadata=authority.certificate)
    if client is not None:
        context.load_cert_chain(client)
    return context.wrap_socket(
        socket.create_connection(address, timeout=60), server_hostname="localhost"
    )


def body_of(connection: socket.socket) -> bytes:
    connection.sendall(REQUEST)
    return b"".join(iter(lambda: connection.recv(4096), b"")).rpartition(b"\r\n")[2]


def test_a_renewed_certificate_is_used_for_new_connections_and_keeps_open_ones(
    listening: socket.socket, certificates: X509Certificates, authority: KeyPair
) -> None:
    first, second = (certificates.issue(authority, ["localhost"], HOUR) for _ in range(2))
    address = listening.getsockname()

    def is_shown(pair: KeyPair) -> bool:
        shown = ssl.get_server_certificate(address, timeout=60)
        return certificates.read(shown) == certificates.read(pair.certificate)

    with TlsServer(APP, listening) as server:
        server.use(first)
        with connect_tls(address, authority) as connection:
            assert is_shown(first)
            server.use(second)
            assert is_shown(second)
            assert body_of(connection) == b"https"


def test_a_client_without_tls_gets_no_response(
    listening: socket.socket, certificates: X509Certificates, authority: KeyPair
) -> None:
    with TlsServer(APP, listening) as server:
        server.use(certificates.issue(authority, ["localhost"], HOUR))
        with suppress(ConnectionResetError):
            assert b"HTTP" not in status_line_of(listening.getsockname())


def test_a_server_with_a_client_authority_only_serves_clients_with_its_certificates(
    listening: socket.socket, certificates: X509Certificates, authority: KeyPair, tmp_path: Path
) -> None:
    client_authority = certificates.new_authority("clients", HOUR)
    trusted = tmp_path / "ca.crt"
    trusted.write_text(client_authority.certificate)
    address = listening.getsockname()
    with TlsServer(APP, listening, str(trusted)) as server:
        server.use(certificates.issue(authority, ["localhost"], HOUR))
        bodies = []
        for issuer in (None, authority, client_authority):
            client = None
            if issuer is not None:
                pair = certificates.issue(issuer, ["api"], HOUR, is_client=True)
                client = write_pair(tmp_path, pair)
            body = b""
            # In TLS 1.3 the client learns after its handshake that the server refused it.
            with (
                suppress(ssl.SSLError, ConnectionError),
                connect_tls(address, authority, client) as connection,
            ):
                body = body_of(connection)
            bodies.append(body)
    assert bodies == [b"", b"", b"https"]
