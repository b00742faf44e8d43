"""Proxy that redirects a host of Google or Azure to a local server."""

from __future__ import annotations

import json
import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from e2e.tls import unwrap
from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock


class RedirectedHost(NamedTuple):
    """Proxy URL, certificate authority to trust, and URL for Google access tokens."""

    proxy: str
    authority: str
    token_url: str


@contextmanager
def redirected_host(
    host: str, port: int, folder: Path, *, rewrites_host: bool
) -> Iterator[RedirectedHost]:
    """Run an HTTPS proxy that terminates TLS for a host, and forwards requests to a local port.

    `rewrites_host` replaces the Host header by the local address.
    """
    folder.mkdir(parents=True, exist_ok=True)
    certificates = X509Certificates(SystemClock())
    authority = certificates.new_authority("test", timedelta(days=1))
    served = certificates.issue(authority, [host], timedelta(days=1))
    files = folder / "served.pem", folder / "served.key"
    files[0].write_text(served.certificate)
    files[1].write_text(served.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files[0], files[1])

    header = f"Host: {host}\r\n".encode()
    local_header = f"Host: 127.0.0.1:{port}\r\n".encode() if rewrites_host else header

    class Proxy(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            assert self.path == f"{host}:443"
            self.send_response(200)
            self.end_headers()
            with (
                unwrap(context.wrap_socket(self.connection, server_side=True)) as client,
                socket.create_connection(("127.0.0.1", port)) as server,
            ):
                ends = {client: server, server: client}
                while True:
                    for end in select.select(list(ends), [], [])[0]:
                        data = end.recv(65536)
                        if not data:
                            return
                        ends[end].sendall(data.replace(header, local_header, 1))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            token = {"access_token": "t", "token_type": "Bearer", "expires_in": 3600}
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(token).encode())

        def log_message(self, *_: object) -> None:
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        server.daemon_threads = True
        # Do not wait for connections that clients keep open.
        server.block_on_close = False
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield RedirectedHost(url, authority.certificate, f"{url}/token")
        finally:
            server.shutdown()
            thread.join()
