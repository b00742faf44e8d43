"""Connection pool of the API client, against a server of raw bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
import urllib3
from urllib3.exceptions import HTTPError

from kanister_py.adapters.cluster_kube.error_responses import NotConnected
from kanister_py.adapters.cluster_kube.pool import ServerPool

PATIENCE_SECONDS = 180.0
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Bytes:
    """Server that responds with the next bytes, and closes the connection for None."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.connections = 0
        self._answers: list[bytes | None] = []
        self._hangs_up_after = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._hung_up = threading.Semaphore(0)
        threading.Thread(target=self._serve, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def says(self, *answers: bytes | None) -> None:
        self._answers.extend(answers)

    def hang_up_after_each(self) -> None:
        self._hangs_up_after = True

    def wait_for_hang_up(self) -> None:
        assert self._hung_up.acquire(timeout=PATIENCE_SECONDS)

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        # A client may close the connection when it rejects a response.
        with suppress(OSError), connection:
            while request := self._read(connection):
                self.heard.append(request)
                answer = self._answers.pop(0)
                if answer is None:
                    return
                connection.sendall(answer)
                if self._hangs_up_after:
                    break
        self._hung_up.release()

    def _read(self, connection: socket.socket) -> bytes:
        held = b""
        while b"\r\n\r\n" not in held:
            try:
                piece = connection.recv(65536)
            except OSError:
                return b""
            if not piece:
                return b""
            held += piece
        head, _, body = held.partition(b"\r\n\r\n")
        sizes = [line for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")]
        size = int(sizes[0].partition(b":")[2]) if sizes else 0
        while len(body) < size:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body


@pytest.fixture
def server() -> Iterator[Bytes]:
    body = Bytes()
    yield body
    body.close()


@pytest.fixture
def pool(server: Bytes) -> Iterator[ServerPool]:
    server_pool = pool_of(server.url)
    yield server_pool
    server_pool.close()


def pool_of(url: str, maxsize: int = 4) -> ServerPool:
    return ServerPool(urllib3.PoolManager(maxsize=maxsize), url)


def ask(pool: ServerPool, method: str = "GET", body: bytes | None = None) -> bytes:
    response = pool.send(
        method,
        "/a?b=c",
        {"Accept": "application/json"},
        body,
        connect_seconds=PATIENCE_SECONDS,
        read_seconds=PATIENCE_SECONDS,
    )
    try:
        return b"".join(response.stream())
    finally:
        response.release_conn()


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        pytest.param(OK, b"ok", id="content length"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", id="no body"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n",
            b"abc0123456789",
            id="chunks with extensions and a trailer",
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok", id="interim response 100"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nCONTENT-length:2\r\n\r\nok", b"ok", id="header names in any case"
        ),
        pytest.param(OK.replace(b"\r\n", b"\r\nX: y\r\n", 1), b"ok", id="more headers"),
    ],
)
def test_a_response_is_read_to_its_end_and_the_connection_is_reused(
    server: Bytes, pool: ServerPool, sent: bytes, want: bytes
) -> None:
    server.says(sent, OK)
    assert ask(pool) == want
    assert ask(pool) == b"ok"
    assert server.connections == 1


def test_a_request_has_the_headers_that_a_server_needs(server: Bytes) -> None:
    pool = pool_of(f"{server.url}/k8s")
    server.says(OK)
    ask(pool, "PUT", b"{}")
    head, _, body = server.heard[0].partition(b"\r\n\r\n")
    request_line, *headers = head.split(b"\r\n")
    assert request_line == b"PUT /k8s/a?b=c HTTP/1.1"
    assert {
        f"Host: {server.url.partition('//')[2]}".encode(),
        b"Accept: application/json",
        b"Content-Length: 2",
    } <= {*headers}
    assert body == b"{}"
    pool.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), id="by a header"),
        pytest.param(OK.replace(b"1.1", b"1.0"), id="by the protocol"),
    ],
)
def test_connection_closed_by_the_server_is_not_reused(
    server: Bytes, pool: ServerPool, sent: bytes
) -> None:
    server.says(sent, OK)
    assert ask(pool) == b"ok"
    assert ask(pool) == b"ok"
    assert server.connections == 2


@pytest.mark.parametrize("status", [b"102 Processing", b"103 Early Hints", b"101 Switch"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_interim_response_does_not_shift_responses(
    server: Bytes, pool: ServerPool, status: bytes, method: str
) -> None:
    server.says(b"HTTP/1.1 " + status + b"\r\n\r\n" + OK, OK.replace(b"ok", b"no"))
    with pytest.raises(HTTPError, match="interim response"):
        ask(pool, method)
    assert ask(pool) == b"no"
    assert server.connections == 2


def test_a_body_without_a_length_ends_with_the_connection(server: Bytes, pool: ServerPool) -> None:
    server.hang_up_after_each()
    server.says(b"HTTP/1.1 200 OK\r\n\r\nall of it")
    assert ask(pool) == b"all of it"


def test_a_connection_that_the_server_has_closed_is_replaced(
    server: Bytes, pool: ServerPool
) -> None:
    server.hang_up_after_each()
    server.says(OK, OK)
    ask(pool)
    server.wait_for_hang_up()
    assert ask(pool, "POST", b"{}") == b"ok"
    assert server.connections == 2


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(None, id="nothing"),
        pytest.param(b"HTTP/1.1 20", id="half a status line"),
        pytest.param(b"220 mail.example.com ESMTP\r\n\r\n", id="another protocol"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", id="more than 100 headers"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", id="a long header"),
    ],
)
def test_broken_response_is_an_error(server: Bytes, pool: ServerPool, sent: bytes | None) -> None:
    server.hang_up_after_each()
    server.says(sent)
    with pytest.raises(HTTPError):
        ask(pool)
    assert len(server.heard) == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(None, id="no response"),
        pytest.param(
            b"HTTP/1.1 307 Moved\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", id="a redirect"
        ),
        pytest.param(
            b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n", id="a refusal"
        ),
    ],
)
def test_a_request_is_sent_once(
    server: Bytes, pool: ServerPool, method: str, sent: bytes | None
) -> None:
    server.says(sent, OK)
    with suppress(HTTPError):
        ask(pool, method)
    assert len(server.heard) == 1


def test_refused_connection_is_distinguished() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NotConnected):
        ask(pool_of(f"http://127.0.0.1:{port}"))


def test_surplus_connections_are_closed(server: Bytes) -> None:
    pool = pool_of(server.url, maxsize=1)
    server.says(OK, OK)
    first, second = (
        pool.send("GET", "/", {}, None, connect_seconds=60, read_seconds=PATIENCE_SECONDS)
        for _ in range(2)
    )
    assert (first.read(), second.read()) == (b"ok", b"ok")
    server.wait_for_hang_up()
    pool.close()


def test_a_closed_pool_sends_nothing(server: Bytes) -> None:
    pool = pool_of(server.url)
    pool.close()
    with pytest.raises(NotConnected):
        ask(pool)
    assert server.heard == []
