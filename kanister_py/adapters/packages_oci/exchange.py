"""Requests to a registry, limited in time and size."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from threading import Timer
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urljoin, urlsplit

from kanister_py.core.errors import UsageError
from kanister_py.core.revisions.package import InvalidPackage
from kanister_py.ports.packages import RegistryUnavailable

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

_CHUNK_BYTES: Final = 1 << 16
_MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)


class PackageNotFound(UsageError, reason="PackageNotFound"):
    """The registry does not have a package, or denies access to it."""

    def __init__(self, package: str, why: str) -> None:
        super().__init__(f"Package {package} cannot be read: {why}")
        self.package = package
        self.why = why


class Exchange:
    """HTTP with one registry and the hosts it redirects to, with a total time limit.

    The limit applies to all requests together. When it is reached, connections are closed from
    another thread, so that a registry that sends single bytes cannot delay the end.
    """

    def __init__(
        self, registry: str, package: str, context: ssl.SSLContext, *, patience: float, total: float
    ) -> None:
        self._registry = registry
        self._package = package
        self._total_seconds = total
        self._sockets: list[socket.socket] = []
        self._answers: list[BaseHTTPResponse] = []
        self._is_over = False
        self._pools = _pools(context, patience, self._sockets)
        self._timer = Timer(total, self._abort)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()
        for answer in self._answers:
            answer.close()
        self._pools.clear()
        for open_socket in self._sockets:
            open_socket.close()

    def _abort(self) -> None:
        self._is_over = True
        for open_socket in list(self._sockets):
            try:
                open_socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # already closed

    def send(self, method: str, url: str, headers: Mapping[str, str]) -> BaseHTTPResponse:
        """Send a request without a body; `read` or `chunks` read the body of the response."""
        from urllib3.exceptions import HTTPError, SSLError

        if self._is_over:
            raise self._timed_out()
        try:
            answer = self._pools.request(
                method,
                url,
                headers={"Accept-Encoding": "identity", **headers},
                preload_content=False,
                decode_content=False,
                redirect=False,
            )
        except SSLError as error:
            raise PackageNotFound(self._package, f"TLS: {_message_of(error)}") from error
        except HTTPError as error:
            raise self._broken(error) from error
        except (ValueError, OSError, HTTPException) as error:
            raise InvalidPackage(
                self._package, f"its registry does not speak HTTP: {error}"
            ) from error
        self._answers.append(answer)
        return answer

    def follow(self, response: BaseHTTPResponse, url: str) -> BaseHTTPResponse:
        """Follow redirects without the login, and never from TLS to plain HTTP."""
        for _ in range(_MAX_REDIRECTS):
            if response.status not in _REDIRECTS:
                return response
            response.close()
            following = self.target(response, url)
            if urlsplit(url).scheme == "https" and urlsplit(following).scheme != "https":
                raise InvalidPackage(self._package, "its registry redirects from TLS to plain HTTP")
            url = following
            response = self.send("GET", url, {})
        raise InvalidPackage(self._package, "its registry redirects too often")

    def target(self, response: BaseHTTPResponse, url: str) -> str:
        """Return the URL that a response redirects to."""
        try:
            location = urljoin(url, response.headers.get("Location", ""))
            is_web = urlsplit(location).scheme in ("http", "https") and location != url
        except ValueError:
            is_web = False
        if not is_web:
            raise InvalidPackage(self._package, "its registry redirects to an invalid address")
        return location

    def read(self, response: BaseHTTPResponse, limit: int) -> bytes:
        return b"".join(self.chunks(response, limit))

    def chunks(self, response: BaseHTTPResponse, limit: int) -> Iterator[bytes]:
        """Yield the body of a response in chunks, up to a limit."""
        from urllib3.exceptions import HTTPError

        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise InvalidPackage(
                self._package, "its registry compresses responses that must not be"
            )
        left = limit
        try:
            while data := response.read(_CHUNK_BYTES, decode_content=False):
                left -= len(data)
                if left < 0:
                    raise InvalidPackage(
                        self._package, f"a response of its registry has more than {limit >> 20} MiB"
                    )
                yield data
            if self._is_over:
                raise self._timed_out()
        except HTTPError as error:
            raise self._broken(error) from error
        except (ValueError, OSError, HTTPException) as error:
            raise InvalidPackage(
                self._package, f"its registry does not speak HTTP: {error}"
            ) from error
        finally:
            response.close()

    def _broken(self, error: Exception) -> RegistryUnavailable:
        return self._timed_out() if self._is_over else self.unavailable(_message_of(error))

    def _timed_out(self) -> RegistryUnavailable:
        return self.unavailable(f"it was not finished within {self._total_seconds:g}s")

    def unavailable(self, why: str) -> RegistryUnavailable:
        return RegistryUnavailable(self._registry, why)


def _pools(context: ssl.SSLContext, patience: float, opened: list[socket.socket]) -> PoolManager:
    """Create connection pools that record their sockets, so that another thread can close them."""
    import urllib3
    from urllib3.connection import HTTPConnection, HTTPSConnection

    def keep(new_socket: socket.socket) -> socket.socket:
        # A duplicate, because TLS replaces the socket object. A shutdown affects both.
        opened.append(new_socket.dup())
        return new_socket

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return keep(super()._new_conn())

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return keep(super()._new_conn())

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Secure

    settings: dict[str, Any] = {"timeout": patience, "retries": False}
    pools = urllib3.PoolManager(ssl_context=context, **settings)
    pools.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
    return pools


def _message_of(error: Exception) -> str:
    """Return the message of an error without the objects that the library names in it."""
    return (
        re.sub(r"^(<?[^>]*>|\w+\([^)]*\)): ", "", str(error)).replace("\n", " ")
        or type(error).__name__
    )
