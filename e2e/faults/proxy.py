"""A proxy in front of an API server that injects faults into requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from e2e.cluster.local import LocalCluster
from e2e.faults.faults import REASONS, Cut, Delay, Fault, Hold, Injection, Refuse, Stall
from e2e.faults.requests import ApiRequest, parse_request

_PIECE: Final = 64 * 1024
_MAX_HEAD: Final = 1024 * 1024
_LOOK_SECONDS: Final = 0.01
_IDLE_SECONDS: Final = 0.25
_GOODBYE_SECONDS: Final = 5.0
_EXPIRED: Final = {
    "type": "ERROR",
    "object": {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version: injected by the proxy of faults",
        "reason": "Expired",
        "code": 410,
    },
}


class _Ended(Exception):
    """One side has ended the connection, or is made to believe so."""


class _Head(NamedTuple):
    """The head of a request or response, as it was sent."""

    raw: bytes
    first: str
    headers: dict[str, str]

    @property
    def status(self) -> int:
        return int(self.first.split(" ")[1])


class FaultProxy:
    """Proxy between a client and an API server. Without faults it forwards every request.

    It terminates TLS on one side and opens it again on the other, so clients have to
    authenticate with tokens: client certificates do not pass. Faults apply to matching
    requests, in the order of injection.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._injections: list[Injection] = []
        self._lock = threading.Lock()
        self._requests: list[ApiRequest] = []
        self._links: set[_Link] = set()
        self._accepted: set[socket.socket] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faults", daemon=True)
        self._thread.start()
        pair = cluster.ca.sign_server("faults", ["127.0.0.1", "localhost"])
        self._inside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._inside.load_cert_chain(pair.certificate, pair.key)
        self.outside = ssl.create_default_context(cafile=str(cluster.ca.certificate))
        self._port = 0
        self._listener: socket.socket | None = None
        self.flows = True
        """Whether any byte moves at all."""
        self.accept()
        self.url = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = self.kubeconfig_for("faults-admin", cluster.admin_token)

    def kubeconfig_for(self, name: str, token: str) -> Path:
        """Write a kubeconfig that uses this proxy with a user's token."""
        return self._cluster.write_kubeconfig(name, token=token, url=self.url)

    @property
    def target(self) -> tuple[str, int]:
        """URL of the API server behind the proxy."""
        parts = urlsplit(self._cluster.url)
        return str(parts.hostname), int(parts.port or 443)

    # Faults

    def inject(  # noqa: PLR0913 # every word says which requests are meant
        self,
        fault: Fault,
        *,
        verb: str = "",
        resource: str = "",
        subresource: str | None = None,
        namespace: str = "",
        name: str = "",
        where: Callable[[ApiRequest], bool] | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> Injection:
        """Apply a fault to matching requests: to `times` of them, after the first `skip`.

        If several faults match, the first one applies. Empty parameters match everything;
        `resource` alone excludes requests for anything else, such as discovery.
        """

        def is_meant(request: ApiRequest) -> bool:
            return (
                (not verb or request.verb == verb)
                and (not resource or request.resource == resource)
                and (subresource is None or request.subresource == subresource)
                and (not namespace or request.namespace == namespace)
                and (not name or request.name == name)
                and (where is None or where(request))
            )

        injection = Injection(fault, is_meant, times, skip)
        with self._lock:
            self._injections.append(injection)
        return injection

    def heal(self) -> None:
        """Remove all faults, and accept connections again."""
        with self._lock:
            injections, self._injections = self._injections, []
        for injection in injections:
            injection.remove()
        self.flows = True
        self.accept()

    def cut(self, *, verb: str = "", resource: str = "") -> int:
        """Reset the connections with such a request; without parameters all, even idle ones."""
        return int(self._do(self._cut(verb, resource)))

    def expire_watches(self, resource: str = "") -> int:
        """End the matching watches with a 410 event: their version is too old."""
        return int(self._do(self._expire(resource)))

    def freeze(self) -> None:
        """Stop forwarding in both directions and keep all connections open (half-open)."""
        self.flows = False

    def thaw(self) -> None:
        self.flows = True

    def refuse(self) -> None:
        """Stop listening and reset open connections, so that connections are refused."""
        self._do(self._refuse())

    def accept(self) -> None:
        """Listen again, on the same port as before."""
        self._do(self._accept())

    # Recorded requests

    @property
    def requests(self) -> list[ApiRequest]:
        """Return all requests since the last reset, including those that met a fault."""
        with self._lock:
            return list(self._requests)

    def counts(self) -> Counter[tuple[str, str]]:
        """Count requests by verb and resource; subresources are written as `pods/log`."""
        return Counter(
            (
                request.verb,
                "/".join(filter(None, (request.resource, request.subresource))) or request.path,
            )
            for request in self.requests
        )

    def count(self, verb: str = "", resource: str = "") -> int:
        """Return the number of requests with a verb and resource (`pods`, `pods/status`)."""
        return sum(
            number
            for (done, of), number in self.counts().items()
            if verb in {"", done} and resource in {"", of}
        )

    def reset(self) -> None:
        """Reset the recorded requests."""
        with self._lock:
            self._requests.clear()

    @property
    def connections(self) -> int:
        """Number of open client connections."""
        return len(self._links)

    def close(self) -> None:
        self.heal()
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Event loop

    def fault_for(self, request: ApiRequest) -> Injection | None:
        """Record a request, and return the fault that applies to it."""
        with self._lock:
            self._requests.append(request)
            injections = list(self._injections)
        return next((injection for injection in injections if injection.take(request)), None)

    def _do(self, wanted: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(wanted, self._loop).result(timeout=30)

    async def _accept(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self._port), backlog=128)
            self._listener.setblocking(False)
            self._port = self._listener.getsockname()[1]
            asyncio.get_running_loop().add_reader(self._listener, self._take, self._listener)

    def _take(self, listener: socket.socket) -> None:
        """Accept a connection, and keep its socket until it is closed.

        An asyncio server forgets accepted sockets if it is closed before they are served.
        """
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            connection, _ = listener.accept()
            connection.setblocking(False)
            self._accepted = {
                known_connection
                for known_connection in self._accepted
                if known_connection.fileno() >= 0
            } | {connection}
            task = asyncio.get_running_loop().create_task(self._serve(connection))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _refuse(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        await self._cut("", "")
        await asyncio.gather(*(link.ended.wait() for link in list(self._links)))

    async def _end(self) -> None:
        await self._refuse()
        other_tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in other_tasks:
            task.cancel()
        await asyncio.gather(*other_tasks, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_asyncgens()
        # Connections in the TLS handshake have no link yet.
        for transport in list(getattr(asyncio.get_running_loop(), "_transports", {}).values()):
            transport.abort()
        # Reset connections are closed in the next iterations of the loop.
        await asyncio.sleep(_LOOK_SECONDS)
        # A task that is cancelled before its first step closes nothing.
        for connection in self._accepted:
            connection.close()

    async def _cut(self, verb: str, resource: str) -> int:
        links = [link for link in self._links if link.carries(verb, resource)]
        for cut_link in links:
            cut_link.reset()
        return len(links)

    async def _expire(self, resource: str) -> int:
        links = [link for link in self._links if link.carries("watch", resource)]
        for watch_link in links:
            watch_link.interrupt(json.dumps(_EXPIRED).encode() + b"\n")
        return len(links)

    async def _serve(self, taken: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_MAX_HEAD, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, taken, ssl=self._inside
            )
        except OSError:
            # The client disconnected or does not trust the certificate during the handshake.
            return
        link = _Link(self, reader, asyncio.StreamWriter(transport, protocol, reader, loop))
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)


class _Link:
    """A client connection, and the connection to the API server for it."""

    def __init__(
        self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._above: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._current: ApiRequest | None = None
        self._interruption: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._task = asyncio.current_task()
        self._socket = writer.get_extra_info("socket")
        self._is_ending = False
        self.ended = asyncio.Event()

    async def run(self) -> None:
        try:
            while await self._serve_one():
                self._current = None
        except (_Ended, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            # The link is cut on purpose, so this is no error.
            pass
        finally:
            self._is_ending = True
            writers = (self._writer, *((self._above[1],) if self._above else ()))
            await asyncio.gather(*(_close(writer) for writer in writers))
            self.ended.set()

    def carries(self, verb: str, resource: str) -> bool:
        """Return whether a matching request is being carried; without parameters, any request."""
        if not verb and not resource:
            return True
        current = self._current
        return (
            current is not None
            and verb in {"", current.verb}
            and resource in {"", current.resource}
        )

    def reset(self) -> None:
        """Close the connection with a reset."""
        if self._is_ending:
            return
        # With a linger time of zero, the kernel resets the connection on close.
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self._writer.transport.abort()
        # A task that resets its own link ends by itself.
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def interrupt(self, last_words: bytes) -> None:
        """End the current response body with additional data."""
        if not self._interruption.done():
            self._interruption.set_result(last_words)

    async def _serve_one(self) -> bool:
        """Forward one request and its response; returns False after the last one."""
        head = await _read_head(self._reader)
        if head is None:
            return False
        body = b"".join([piece async for piece in _body(self._reader, head, is_request=True)])
        method, path, _ = head.first.split(" ")
        self._current = request = parse_request(method, path, head.headers, _plain(head, body))
        await self._flow()
        injection = self._proxy.fault_for(request)
        fault = injection.fault if injection else None
        if injection is not None:
            await self._befall(injection)
        if isinstance(fault, Refuse) and not fault.is_done:
            await self._refuse(fault)
            return True
        reader = await self._ask(head, body)
        answer = await _read_head(reader)
        if answer is None:
            raise _Ended
        if answer.status == 101:
            await self._tunnel(answer, fault)
            return False
        if isinstance(fault, Refuse):
            async for _ in _body(reader, answer, method=method):
                pass
            await self._refuse(fault)
            return True
        if isinstance(fault, Hold) and fault.is_done:
            assert injection is not None
            await self._until(lambda: injection.is_over)
        return await self._answer(reader, answer, method, injection)

    async def _befall(self, injection: Injection) -> None:
        """Apply the fault before the request is forwarded."""
        match injection.fault:
            case Delay(seconds):
                until = asyncio.get_running_loop().time() + seconds
                await self._until(
                    lambda: injection.is_over or asyncio.get_running_loop().time() >= until
                )
            case Hold(is_done=False):
                await self._until(lambda: injection.is_over)
            case Cut(after_bytes=None):
                self.reset()
                raise _Ended

    async def _refuse(self, fault: Refuse) -> None:
        reason = fault.reason or REASONS.get(fault.status, "InternalError")
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": fault.message,
            "reason": reason,
            "code": fault.status,
        }
        if fault.retry_after is not None:
            status["details"] = {"retryAfterSeconds": fault.retry_after}
        body = json.dumps(status).encode()
        lines = [
            f"HTTP/1.1 {fault.status} {reason}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *([f"Retry-After: {fault.retry_after}"] if fault.retry_after is not None else []),
        ]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self._writer.drain()

    async def _ask(self, head: _Head, body: bytes) -> asyncio.StreamReader:
        """Forward the request, replacing an upstream connection that has ended."""
        if self._above is None or self._above[0].at_eof() or self._above[1].is_closing():
            if self._above is not None:
                await _close(self._above[1])
            host, port = self._proxy.target
            self._above = await asyncio.open_connection(
                host, port, ssl=self._proxy.outside, limit=_MAX_HEAD
            )
        reader, writer = self._above
        writer.write(head.raw + body)
        await writer.drain()
        return reader

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        head: _Head,
        method: str,
        injection: Injection | None,
    ) -> bool:
        """Forward the response as it arrives, as far as the fault allows."""
        fault = injection.fault if injection else None
        left = None
        if isinstance(fault, Cut | Stall):
            left = fault.after_bytes
        await self._flow()
        if left is None or left > 0:
            self._writer.write(head.raw)
        pieces = _body(reader, head, method=method)
        pending: asyncio.Task[bytes | None] | None = None
        try:
            while True:
                pending = asyncio.ensure_future(_next(pieces))
                await self._wait_for(pending)
                if not pending.done():
                    words = self._interruption.result()
                    self._writer.write(f"{len(words):x}\r\n".encode() + words + b"\r\n0\r\n\r\n")
                    await self._writer.drain()
                    return False
                piece = pending.result()
                pending = None
                if piece is None:
                    break
                await self._flow()
                if left is not None:
                    piece = piece[:left]
                    left -= len(piece)
                self._writer.write(piece)
                await self._writer.drain()
                if left == 0:
                    break
        finally:
            if pending is not None:
                pending.cancel()
        if left is not None:
            assert injection is not None
            if isinstance(fault, Stall):
                await self._until(lambda: injection.is_over)
            self.reset()
            raise _Ended
        await self._writer.drain()
        return _keeps_open(head)

    async def _wait_for(self, pending: asyncio.Future[bytes | None]) -> None:
        """Wait for data, for an interruption, or for the client to disconnect."""
        waited: list[asyncio.Future[Any]] = [pending, self._interruption]
        while not pending.done() and not self._interruption.done():
            await asyncio.wait(
                waited,
                timeout=_IDLE_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._reader.at_eof() or self._writer.is_closing():
                raise _Ended

    async def _tunnel(self, head: _Head, fault: Fault | None) -> None:
        """Forward an upgraded connection in both directions until one side closes it."""
        assert self._above is not None
        reader, writer = self._above
        self._writer.write(head.raw)
        left = fault.after_bytes if isinstance(fault, Cut | Stall) else None
        both = [
            asyncio.ensure_future(self._carry(self._reader, writer, None)),
            asyncio.ensure_future(self._carry(reader, self._writer, left)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if isinstance(fault, Stall) and both[1].done():
                await both[0]
            elif both[0].done():
                # After the client has closed, the API server sends only its closing handshake.
                await asyncio.wait(both, timeout=_GOODBYE_SECONDS)
        finally:
            for stream in both:
                stream.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        if left is not None:
            self.reset()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None
    ) -> None:
        while left is None or left > 0:
            data = await reader.read(_PIECE)
            if not data:
                return
            await self._flow()
            if left is not None:
                data = data[:left]
                left -= len(data)
            writer.write(data)
            await writer.drain()

    async def _flow(self) -> None:
        await self._until(lambda: self._proxy.flows)

    async def _until(self, is_over: Callable[[], bool]) -> None:
        """Wait for a condition; a client that disconnects ends the wait."""
        while not is_over():
            await asyncio.sleep(_LOOK_SECONDS)
            if self._reader.at_eof() or self._writer.is_closing():
                raise _Ended


async def _read_head(reader: asyncio.StreamReader) -> _Head | None:
    """Read up to the empty line; returns nothing if the connection ends before it."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = raw.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return _Head(raw, first, headers)


async def _body(
    reader: asyncio.StreamReader, head: _Head, *, is_request: bool = False, method: str = ""
) -> AsyncIterator[bytes]:
    """Yield a body in pieces as it arrives, including the framing of chunks."""
    if "chunked" in head.headers.get("transfer-encoding", ""):
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            yield line + await reader.readexactly(size + 2)
            if not size:
                return
    if "content-length" in head.headers:
        left = 0 if method == "HEAD" else int(head.headers["content-length"])
        while left:
            data = await reader.read(min(left, _PIECE))
            if not data:
                raise _Ended
            left -= len(data)
            yield data
        return
    if is_request or method == "HEAD" or head.status in {204, 304}:
        return
    while data := await reader.read(_PIECE):
        yield data


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


def _plain(head: _Head, body: bytes) -> bytes:
    """Return the body of a request without the framing of its chunks."""
    if "chunked" not in head.headers.get("transfer-encoding", ""):
        return body
    plain = b""
    while body:
        line, _, body = body.partition(b"\r\n")
        size = int(line.split(b";")[0], 16)
        plain, body = plain + body[:size], body[size + 2 :]
    return plain


def _keeps_open(head: _Head) -> bool:
    has_end = "content-length" in head.headers or "transfer-encoding" in head.headers
    return (has_end or head.status in {204, 304}) and head.headers.get("connection") != "close"


async def _close(writer: asyncio.StreamWriter) -> None:
    if not writer.is_closing():
        writer.close()
    try:
        await asyncio.wait_for(writer.wait_closed(), _GOODBYE_SECONDS)
    except (OSError, ssl.SSLError, TimeoutError):
        writer.transport.abort()
