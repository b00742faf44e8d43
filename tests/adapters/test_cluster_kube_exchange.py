"""HTTP exchange with a server of raw bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from kanister_py.adapters.cluster_kube.exchange import (
    Exchange,
    NotAnswered,
    NotReached,
    ServerAnswer,
    Way,
)

PATIENCE_SECONDS = 180.0
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Bytes:
    """Answers each request with the next bytes; None hangs up. Counts connections."""

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
        with connection:
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
    made = Bytes()
    yield made
    made.close()


@pytest.fixture
def exchange(server: Bytes) -> Iterator[Exchange]:
    made = exchange_with(server.url)
    yield made
    made.close()


def exchange_with(url: str, most_idle: int = 4) -> Exchange:
    return Exchange(Way(url, None, "", ()), most_idle)


def ask(exchange: Exchange, method: str = "GET", body: bytes | None = None) -> ServerAnswer:
    headers = {"Accept": "application/json"}
    return exchange.ask(
        method,
        "/a?b=c",
        headers,
        body,
        connect_seconds=PATIENCE_SECONDS,
        answer_seconds=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        pytest.param(OK, b"ok", id="a body of a length"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", id="no body"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n",
            b"abc0123456789",
            id="pieces, with words behind them",
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok", id="a word in between"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nCONTENT-length:2\r\n\r\nok", b"ok", id="names in any case"
        ),
    ],
)
def test_an_answer_is_read_to_its_end_and_the_connection_is_used_again(
    server: Bytes, exchange: Exchange, sent: bytes, want: bytes
) -> None:
    server.says(sent, OK)
    assert ask(exchange).body == want
    assert ask(exchange).body == b"ok"
    assert server.connections == 1


def test_a_request_says_all_that_a_server_needs(server: Bytes) -> None:
    exchange = exchange_with(f"{server.url}/k8s/")
    server.says(OK)
    ask(exchange, "PUT", b"{}")
    head, _, body = server.heard[0].partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"PUT /k8s/a?b=c HTTP/1.1",
        f"Host: {server.url.partition('//')[2]}".encode(),
        b"Accept: application/json",
        b"Content-Length: 2",
    ]
    assert body == b"{}"
    exchange.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), id="said"),
        pytest.param(OK.replace(b"1.1", b"1.0"), id="old"),
    ],
)
def test_a_connection_that_is_not_to_be_used_again_is_not(
    server: Bytes, exchange: Exchange, sent: bytes
) -> None:
    server.says(sent, OK)
    assert ask(exchange).body == b"ok"
    assert ask(exchange).body == b"ok"
    assert server.connections == 2


def test_a_body_without_a_length_ends_with_the_connection(
    server: Bytes, exchange: Exchange
) -> None:
    server.hang_up_after_each()
    server.says(b"HTTP/1.1 200 OK\r\n\r\nall of it")
    assert ask(exchange).body == b"all of it"


def test_a_connection_that_the_server_closed_meanwhile_is_not_asked(
    server: Bytes, exchange: Exchange
) -> None:
    server.hang_up_after_each()
    server.says(OK, OK)
    ask(exchange)
    server.wait_for_hang_up()
    assert ask(exchange, "POST", b"{}").body == b"ok"
    assert server.connections == 2


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(None, id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", id="half a head"),
        pytest.param(b"220 mail.example.com ESMTP\r\n\r\n", id="another language"),
    ],
)
def test_who_hangs_up_without_an_answer_may_have_heard(
    server: Bytes, exchange: Exchange, sent: bytes | None
) -> None:
    server.hang_up_after_each()
    server.says(sent)
    with pytest.raises(NotAnswered):
        ask(exchange)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\nno", id="shorter than told"),
        pytest.param(
            b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nno", id="a piece that ends"
        ),
    ],
)
def test_an_answer_that_breaks_off_keeps_its_code(
    server: Bytes, exchange: Exchange, sent: bytes
) -> None:
    server.hang_up_after_each()
    server.says(sent)
    answer = ask(exchange)
    assert (answer.status, answer.is_whole) == (500, False)


def test_nobody_there_has_heard_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NotReached):
        ask(exchange_with(f"http://127.0.0.1:{port}"))


def test_a_header_cannot_bring_in_another(server: Bytes, exchange: Exchange) -> None:
    with pytest.raises(NotReached):
        exchange.ask(
            "GET",
            "/",
            {"Authorization": "a\r\nX: y"},
            None,
            connect_seconds=PATIENCE_SECONDS,
            answer_seconds=PATIENCE_SECONDS,
        )
    assert server.heard == []


def test_no_more_connections_are_kept_than_wanted(server: Bytes) -> None:
    exchange = exchange_with(server.url, most_idle=0)
    server.says(OK, OK)
    ask(exchange)
    ask(exchange)
    assert server.connections == 2


def test_who_asks_on_after_the_end_leaves_no_connection_open(server: Bytes) -> None:
    exchange = exchange_with(server.url)
    exchange.close()
    server.says(OK)
    assert ask(exchange).body == b"ok"
    # It is closed from this side, though the server would have kept it.
    server.wait_for_hang_up()
