"""Pool of connections to an API server: urllib3 under the official client's configuration.

urllib3 is imported at the top: import this module where the first connection is needed.
"""

from __future__ import annotations

import io
import logging
import socket
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import Any, Final

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, NewConnectionError

from kanister_py.adapters.cluster_kube.error_responses import NotConnected, reason_of

_MAX_BYTES: Final = 1 << 30
_FAIR_BYTES_PER_SECOND: Final = 64 * 1024

# Connections beyond the size of the pool are closed after use, which needs no warning.
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)


class ServerPool:
    """Connections to one API server, for any thread. A request is sent once, to that server."""

    def __init__(self, manager: urllib3.PoolManager, server: str) -> None:
        self._manager = manager
        self._server = server
        self._pool: Any = manager.connection_from_url(server)
        # SOCKS proxies use a connection class of their own, which is not replaced.
        own: dict[Any, Any] = {HTTPConnection: _PlainConnection, HTTPSConnection: _SecureConnection}
        self._pool.ConnectionCls = own.get(self._pool.ConnectionCls, self._pool.ConnectionCls)
        # Only a proxy that forwards plain HTTP needs the absolute URL.
        self._is_forwarded = manager.proxy is not None and server.startswith("http:")
        self._path = urllib3.util.parse_url(server).path or ""

    @property
    def proxy(self) -> Any:
        """The address of the proxy in front of the server, as urllib3 parsed it, or None."""
        return self._manager.proxy

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        connect_seconds: float,
        read_seconds: float,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request and return the response with its body unread.

        `read_seconds` is the time for all of the response; a body that arrives fast enough has
        more. Raises `NotConnected` and urllib3's `HTTPError`.
        """
        options: dict[str, Any] = {
            "body": body,
            "headers": headers,
            "timeout": urllib3.Timeout(connect=connect_seconds, read=read_seconds),
            "retries": False,
            "redirect": False,
            "preload_content": False,
            "decode_content": False,
        }
        try:
            if self._is_forwarded:
                response = self._manager.urlopen(method, self._server + target, **options)
            else:
                response = self._pool.urlopen(method, self._path + target, **options)
        except (
            urllib3.exceptions.ClosedPoolError,
            urllib3.exceptions.ConnectTimeoutError,
            urllib3.exceptions.ProxyError,
        ) as error:
            raise NotConnected(reason_of(error)) from error
        if 100 <= response.status < 200:
            # http.client skips only 100. The final response is still to come on this connection.
            response.close()
            raise HTTPError(f"The server sent an interim response {response.status}")
        return response

    def allow_silence(self, response: urllib3.BaseHTTPResponse) -> None:
        """Apply `read_seconds` to each read of a response from here on: it is a stream."""
        connection: Any = response.connection
        if isinstance(connection, _BoundedConnection):
            connection.allow_silence()

    def close(self) -> None:
        """Close idle connections; those in use are closed when their response has been read."""
        self._pool.close()
        self._manager.clear()


class _BoundedReader(io.RawIOBase):
    """Reader of a socket with one deadline for a whole response.

    A socket's timeout is for single reads: a server that sends a byte now and then never
    exceeds it. In a body the deadline moves with the bytes that arrive.
    """

    def __init__(self, source: socket.socket) -> None:
        self._socket = source
        # Keeps the socket open while the response is read, even if the connection is closed.
        self._file: Any = source.makefile("rb", buffering=0)
        self._timeout = source.gettimeout()
        self._deadline = None if self._timeout is None else monotonic() + self._timeout
        self._left = _MAX_BYTES
        self.is_in_body = False

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return what http.client reads from."""
        return io.BufferedReader(self)

    def allow_silence(self) -> None:
        """Apply the timeout to each read from here on."""
        self._deadline = None
        self._socket.settimeout(self._timeout)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._deadline is None:
            return int(self._file.readinto(buffer))
        left = self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError("The response was not complete in time")
        self._socket.settimeout(left)
        count = int(self._file.readinto(buffer))
        self._left -= count
        if self._left < 0:
            raise OSError("The response is larger than 1 GiB")
        if self.is_in_body:
            self._deadline += count / _FAIR_BYTES_PER_SECOND
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _BoundedConnection(HTTPConnection):
    """Connection with one deadline for a response and an error of its own for failures to connect.

    urllib3 reports a TLS handshake that takes too long like a response that does not come.
    """

    _reader: _BoundedReader

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.response_class: Any = self._response_from

    def connect(self) -> None:
        try:
            super().connect()
        except NewConnectionError:
            raise
        except (OSError, HTTPException, HTTPError, ValueError) as error:
            raise NewConnectionError(self, reason_of(error)) from error

    def getresponse(self) -> Any:
        response = super().getresponse()
        self._reader.is_in_body = True
        return response

    def allow_silence(self) -> None:
        self._reader.allow_silence()

    def _response_from(self, source: socket.socket, *args: Any, **options: Any) -> HTTPResponse:
        self._reader = _BoundedReader(source)
        return HTTPResponse(self._reader, *args, **options)  # type: ignore[arg-type] # it needs makefile alone


class _PlainConnection(_BoundedConnection):
    pass


class _SecureConnection(_BoundedConnection, HTTPSConnection):
    pass
