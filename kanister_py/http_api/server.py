"""HTTP servers: uvicorn with limits on idle connections, and with TLS."""

from __future__ import annotations

import ssl
import tempfile
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    import asyncio
    import socket

    import uvicorn
    from starlette.types import ASGIApp
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from kanister_py.core.kube.certificates import KeyPair

_REQUEST_SECONDS: Final = 10.0
_LONGEST_HEAD: Final = 32_768
_MOST_CONNECTIONS: Final = 800
_MOST_UNFINISHED: Final = 400


def server_config(
    app: ASGIApp,
    *,
    access_log: bool = False,
    grace_seconds: int = 2,
    request_seconds: float = _REQUEST_SECONDS,
) -> uvicorn.Config:
    """Return the configuration of uvicorn for an application.

    Connections that do not deliver a complete request within `request_seconds` are closed.
    When the server stops, responses in progress have `grace_seconds` to finish.
    """
    import uvicorn

    return uvicorn.Config(
        app,
        http=_protocol(request_seconds),
        log_config=None,
        access_log=access_log,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=grace_seconds,
    )


@cache
def _protocol(request_seconds: float) -> type[H11Protocol]:
    """Derive a protocol from uvicorn's that limits the time and number of incomplete requests."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class LimitedProtocol(H11Protocol):
        """HTTP protocol that closes connections without a request, the oldest first."""

        # Oldest first. Shared by all servers of the process.
        unfinished: Final[dict[Any, asyncio.TimerHandle]] = {}

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn's own
            super().connection_made(transport)
            self._wait_for_request()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
                self._wait_for_request()
            else:
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait_for_request(self) -> None:
            if self in self.unfinished:
                return
            if len(self.unfinished) >= _MOST_UNFINISHED:
                next(iter(self.unfinished)).abort()
            self.unfinished[self] = self.loop.call_later(request_seconds, self.abort)

        def _stop_waiting(self) -> None:
            timer = self.unfinished.pop(self, None)
            if timer is not None:
                timer.cancel()

        def abort(self) -> None:
            self._stop_waiting()
            self.transport.abort()

    return LimitedProtocol


class TlsServer:
    """HTTPS server in a thread, whose certificate can be replaced while it runs.

    It starts to accept connections with its first certificate. A new certificate applies to new
    connections; open ones keep theirs. With `client_ca`, a file of certificates in PEM, clients
    need a certificate of one of these authorities.
    """

    def __init__(self, app: ASGIApp, listening: socket.socket, client_ca: str = "") -> None:
        self._app = app
        self._listening = listening
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        if client_ca:
            self._context.load_verify_locations(client_ca)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._lock = Lock()
        self._server: uvicorn.Server | None = None
        self._thread: Thread | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._is_closed = True
            server, thread = self._server, self._thread
        if server is not None and thread is not None:
            server.should_exit = True
            thread.join(5)

    def use(self, pair: KeyPair) -> None:
        """Use a certificate for new connections, and start the server if it is the first one."""
        # The ssl module reads keys from files only. They are deleted once they are loaded.
        with tempfile.TemporaryDirectory(prefix="kanister-py-") as folder:
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            key.touch(mode=0o600)
            key.write_text(pair.key, encoding="ascii")
            certificate.write_text(pair.certificate, encoding="ascii")
            self._context.load_cert_chain(certificate, key)
        with self._lock:
            if self._server is None and not self._is_closed:
                self._start()

    def _start(self) -> None:
        import uvicorn

        config = server_config(self._app)
        config.load()
        config.ssl = self._context
        self._server = uvicorn.Server(config)
        self._thread = Thread(
            target=self._server.run, args=([self._listening],), name="https", daemon=True
        )
        self._thread.start()
