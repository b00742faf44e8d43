"""HTTP exchange: one request and its response, which another thread can stop.

The libraries used here are slow to import, so modules that only read arguments avoid it.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from threading import Lock
from typing import Final, NamedTuple
from urllib.request import getproxies_environment, proxy_bypass

from kanister_py.core.errors import UsageError
from kanister_py.functions.blueprint.http_request.request import (
    Address,
    InvalidRequest,
    Request,
    Response,
)
from kanister_py.ports.confinement import Confinement

_LARGEST_BODY: Final = 4 * 1024 * 1024
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


class Security(NamedTuple):
    """Trusted certificates, and whether to use the proxy of the environment."""

    authority: str = ""
    is_unchecked: bool = False
    uses_proxy: bool = False

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self.authority:
            try:
                context.load_verify_locations(cadata=self.authority)
            except ssl.SSLError:
                raise InvalidRequest("caCertificate is no certificate in PEM") from None
        if self.is_unchecked:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def proxy_for(self, address: Address) -> Address | None:
        if not self.uses_proxy or proxy_bypass(address.authority):
            return None
        url = getproxies_environment().get(address.scheme, "")
        return Address.of(url if "://" in url else f"http://{url}") if url else None


class Exchange:
    """One request and its response. `stop` can be called from any thread at any time."""

    def __init__(
        self,
        security: Security,
        timeout_seconds: float,
        confinement: Confinement | None = None,
    ) -> None:
        self._security = security
        self._confinement = confinement
        self._timeout_seconds = timeout_seconds
        self._lock = Lock()
        self._held: socket.socket | None = None
        self.is_stopped = False
        self.is_begun = False
        """Whether a part of the request was sent, so that the host may have acted on it."""

    def stop(self) -> None:
        """Make the thread in `run` fail at once."""
        with self._lock:
            self.is_stopped = True
            if self._held is not None:
                with suppress(OSError):
                    self._held.shutdown(socket.SHUT_RDWR)

    def run(self, request: Request) -> Response:
        address = request.address
        proxy = self._security.proxy_for(address)
        if proxy is not None and self._confinement is not None:
            self._confinement.check_proxy()
        try:
            with self._connect(proxy or address) as plain:
                if address.scheme != "https":
                    return self._talk(plain, request, proxy)
                if proxy is not None:
                    self._tunnel(plain, address, proxy)
                context = self._security.context()
                with context.wrap_socket(plain, server_hostname=address.host) as wrapped:
                    return self._talk(wrapped, request, None)
        finally:
            with self._lock:
                if self._held is not None:
                    self._held.close()
                    self._held = None

    def _connect(self, address: Address) -> socket.socket:
        failure: OSError = OSError("no address")
        for family, kind, protocol, _, place in socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM
        ):
            # Connect to the address that was checked: the name is resolved only once.
            if self._confinement is not None:
                self._confinement.check_address(str(place[0]))
            sock = socket.socket(family, kind, protocol)
            try:
                self._hold(sock)
                sock.settimeout(self._timeout_seconds)
                sock.connect(place)
                self._check_stopped()
            except OSError as error:
                sock.close()
                failure = error
                self._check_stopped()
            else:
                return sock
        raise failure

    def _hold(self, sock: socket.socket) -> None:
        # A second handle on the connection, because TLS may detach the first one.
        with self._lock:
            if self._held is not None:
                self._held.close()
            self._held = sock.dup()
        self._check_stopped()

    def _check_stopped(self) -> None:
        if self.is_stopped:
            raise ConnectionAbortedError("stopped")

    def _tunnel(self, sock: socket.socket, address: Address, proxy: Address) -> None:
        host = f"[{address.host}]" if ":" in address.host else address.host
        place = f"{host}:{address.port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        if proxy.credentials:
            lines.append(f"Proxy-Authorization: {proxy.credentials}")
        sock.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
        response = HTTPResponse(sock, method="CONNECT")
        try:
            response.begin()
            if response.status != 200:
                raise OSError(f"the proxy returned {response.status}")
        finally:
            response.close()

    def _talk(self, sock: socket.socket, request: Request, proxy: Address | None) -> Response:
        address = request.address
        connection = HTTPConnection(address.host, address.port)
        connection.sock = sock
        self.is_begun = True
        target = f"{address.origin}{address.target}" if proxy is not None else address.target
        try:
            connection.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in _headers_of(request, proxy).items():
                connection.putheader(name, value.encode("utf-8"))
            connection.endheaders(request.body)
        except ValueError as error:
            raise InvalidRequest(f"Request cannot be sent: {error}") from None
        with connection.getresponse() as response:
            body = response.read(_LARGEST_BODY + 1)
            if len(body) > _LARGEST_BODY:
                why = f"{address}: the response has more than {_LARGEST_BODY // 1024} KiB"
                raise UsageError(why, reason="ResponseTooLarge")
            if response.length:
                raise IncompleteRead(body, response.length)
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Response(response.status, headers, body)


def _headers_of(request: Request, proxy: Address | None) -> Mapping[str, str]:
    """Return the headers to send; the caller's values override the defaults."""
    address = request.address
    headers = {
        "host": address.authority,
        "user-agent": "kanister-py",
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "close",
    }
    if address.credentials:
        headers["authorization"] = address.credentials
    if proxy is not None and proxy.credentials:
        headers["proxy-authorization"] = proxy.credentials
    if request.body is not None or request.method in _WITH_BODY:
        headers["content-length"] = str(len(request.body or b""))
    return {**headers, **{name.lower(): value for name, value in request.headers.items()}}
