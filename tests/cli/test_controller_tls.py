"""TLS of the controller: the webhook's client authority, and the endpoint with --tls."""

from __future__ import annotations

import argparse
import base64
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli.controller import add_arguments
from kanister_py.cli.controller_endpoint import Apps, serve_apps
from kanister_py.cli.controller_webhook import certificate_renewal, webhook_server
from kanister_py.cli.parser import Parser
from kanister_py.core.kube.resources import SECRETS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.wiring import read_functions

HOUR = timedelta(hours=1)
REVIEW = json.dumps(
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "1", "kind": {"kind": "Pod"}, "object": {}},
    }
)


def parsed(*words: str) -> argparse.Namespace:
    parser = Parser(prog="kanister-py controller", environment={})
    add_arguments(parser)
    args: argparse.Namespace = parser.parse_args(list(words))
    return args


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]


def status_of(
    address: tuple[str, int], context: ssl.SSLContext, path: str, body: str | None = None
) -> int:
    connection = HTTPSConnection("localhost", address[1], timeout=60, context=context)
    try:
        connection.request("GET" if body is None else "POST", path, body)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_webhook_only_accepts_clients_of_the_given_authority(
    sockets: list[socket.socket], tmp_path: Path
) -> None:
    certificates = X509Certificates(SystemClock())
    authority, client_authority = (certificates.new_authority(name, HOUR) for name in "ab")
    ca_file, client_file = tmp_path / "ca.crt", tmp_path / "client.pem"
    ca_file.write_text(client_authority.certificate)
    pair = certificates.issue(client_authority, ["api"], HOUR, is_client=True)
    client_file.write_text(pair.key + pair.certificate)
    args = parsed("--webhook-port", "1", "--webhook-client-ca", str(ca_file))
    cluster = MemoryCluster(clock=SystemClock())
    address = sockets[0].getsockname()
    anonymous = ssl.create_default_context(cadata=authority.certificate)
    known = ssl.create_default_context(cadata=authority.certificate)
    known.load_cert_chain(client_file)
    with webhook_server(args, read_functions(), cluster, sockets[0]) as server:
        server.use(certificates.issue(authority, ["localhost"], HOUR))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            status_of(address, anonymous, "/validate", REVIEW)
        assert status_of(address, known, "/validate", REVIEW) == 200


def test_the_endpoint_uses_the_certificate_of_its_secret_and_health_starts_without_it(
    sockets: list[socket.socket],
) -> None:
    async def fine(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("fine")

    clock = SystemClock()
    cluster = MemoryCluster(clock=clock)
    app = Starlette(routes=[Route("/healthz", fine)])
    endpoint, health = (listener.getsockname() for listener in sockets)
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    args = parsed("--tls", "--tls-service", "web", "--tls-secret", "web-tls")
    with ExitStack() as stack:
        servers = serve_apps(Apps(app, app), sockets, clock, stack, uses_tls=True)
        assert status_of(health, unverified, "/healthz") == 200
        renewal = certificate_renewal(args, cluster, clock, "default", servers)
        assert renewal.check()
        renewal.renew()
        assert renewal.check() == ""
        data = cluster.get(SECRETS, "web-tls", namespace="default")["data"]
        trusting = ssl.create_default_context(cadata=base64.b64decode(data["ca.crt"]).decode())
        for address in (endpoint, health):
            assert status_of(address, trusting, "/healthz") == 200
        facts = X509Certificates(clock).read(base64.b64decode(data["tls.crt"]).decode())
        assert facts is not None
        assert facts.names >= {"web.default.svc", "localhost"}
        with suppress(ConnectionError), socket.create_connection(endpoint, 60) as plain:
            plain.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert b"200" not in plain.recv(100)
