"""Commands in containers, over a WebSocket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from socket import SHUT_RDWR
from typing import Any, Final

from kanister_py.adapters.cluster_kube.answers import Asked, error_of, status_in
from kanister_py.adapters.cluster_kube.requests import Requests
from kanister_py.core.errors import ApiError, ClusterUnavailable, MethodNotAllowed, StreamLost
from kanister_py.core.kube.request_paths import check_headers, request_target
from kanister_py.ports.cluster import Channel, ExecChunk, Stream

_V5: Final = "v5.channel.k8s.io"
_PROTOCOLS: Final = (_V5, "v4.channel.k8s.io")
_STDIN, _ERROR, _CLOSE = 0, 3, 255
_CHANNELS: Final = {1: Channel.STDOUT, 2: Channel.STDERR}
_PIECE: Final = 32 * 1024
_CLOSE_SECONDS: Final = 1.0


class KubeExecSession(Stream):
    """One command, from its start on an open connection to its exit code.

    Nobody has to say anything for hours: whether the other side is still there is asked
    with pings, and who does not answer them is `StreamLost`.
    """

    def __init__(self, socket: Any, requests: Requests, asked: Asked) -> None:
        self._socket = socket
        self._timing = requests.timing
        self._asked = asked
        self._protocol = str(socket.getsubprotocol() or "")
        # Reading and writing take turns: TLS is one state for both.
        self._lock = threading.Lock()
        self._state = threading.Lock()
        self._is_read = False
        self._was_closed = threading.Event()
        self._exit_code: int | None = None
        self._has_ended = False

    @property
    def exit_code(self) -> int | None:
        return self._exit_code

    def __iter__(self) -> Iterator[ExecChunk]:
        with self._state:
            self._is_read = True
        try:
            yield from self._chunks()
        finally:
            with self._state:
                self._is_read = False
                is_over = self._was_closed.is_set() or self._has_ended
            if is_over:
                self._let_go()

    def _chunks(self) -> Iterator[ExecChunk]:
        while not (self._was_closed.is_set() or self._has_ended):
            message = self._receive()
            if message is None:
                return
            if not message:
                continue
            number, data = message[0], message[1:]
            if number == _ERROR:
                self._end(data)
            elif number in _CHANNELS and data:
                yield ExecChunk(_CHANNELS[number], data)

    def write_stdin(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            self._send(bytes([_STDIN]) + data[start : start + _PIECE])

    def close_stdin(self) -> None:
        if self._protocol != _V5:
            raise MethodNotAllowed(
                f"The cluster cannot end the standard input of a command: it speaks "
                f"{self._protocol or 'no protocol'}, and {_V5} is needed",
                resource=self._asked.resource,
                name=self._asked.name,
            )
        self._send(bytes([_CLOSE, _STDIN]))

    def close(self) -> None:
        """Leave the command, and let a reader in another thread go."""
        if self._was_closed.is_set():
            return
        self._was_closed.set()
        # Politely if nothing else is being sent; the end of the connection means the same.
        if self._lock.acquire(timeout=_CLOSE_SECONDS):
            try:
                with suppress(Exception):  # it may be broken in any way
                    self._socket.send_close()
            finally:
                self._lock.release()
        # Not with the library's `abort`, which does nothing once it has sent its goodbye. The
        # reader may have let go of the connection meanwhile, and the other side may be gone.
        with suppress(OSError, AttributeError):
            self._socket.sock.shutdown(SHUT_RDWR)
        with self._state:
            is_read = self._is_read
        if not is_read:
            # Else its reader, whom this wakes, lets go of it.
            self._let_go()

    def __exit__(self, *exc: object) -> None:
        self.close()
        self._let_go()

    def _let_go(self) -> None:
        # One at a time: the library looks, closes and forgets in three steps.
        with self._state:
            self._socket.shutdown()

    # The stream

    def _receive(self) -> bytes | None:
        """Give the next message; nothing if it was closed here; raise if it was lost."""
        import websocket

        try:
            self._wait_for_data()
            if self._was_closed.is_set():
                return None
            with self._lock:
                opcode, frame = self._socket.recv_data_frame(control_frame=True)
        except (OSError, ValueError, AttributeError, websocket.WebSocketException) as error:
            if self._was_closed.is_set():
                return None
            raise self._lost(f"{type(error).__name__}") from error
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            if self._was_closed.is_set():
                return None
            raise self._lost("it was closed before the command's end was told")
        if opcode in (websocket.ABNF.OPCODE_PING, websocket.ABNF.OPCODE_PONG):
            return b""
        return bytes(frame.data)

    def _wait_for_data(self) -> None:
        """Come back when there is something to read; ask for a sign of life meanwhile."""
        from urllib3.util import wait_for_read

        socket = self._socket.sock
        pending = getattr(socket, "pending", None)
        if pending is not None and pending():
            return
        for _ in range(self._timing.unanswered_pings + 1):
            # Not with `select`, which knows no more than a thousand connections.
            if wait_for_read(socket, self._timing.ping) or self._was_closed.is_set():
                return
            with self._lock:
                self._socket.ping()
        raise self._lost("nobody answers")

    def _send(self, message: bytes) -> None:
        import websocket

        try:
            with self._lock:
                self._socket.send_binary(message)
        except (OSError, AttributeError, websocket.WebSocketException) as error:
            if self._was_closed.is_set() or self._has_ended:
                return
            raise self._lost(type(error).__name__) from error

    def _lost(self, why: str) -> StreamLost:
        message = f"the stream of a command in pod {self._asked.name} was lost: {why}"
        return StreamLost(message, resource=self._asked.resource, name=self._asked.name)

    def _end(self, data: bytes) -> None:
        """Read how the command ended; raise if it never was one."""
        status = status_in(data) or _plain(data)
        self._has_ended = True
        if status.get("status") == "Success":
            self._exit_code = 0
            return
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode":
                self._exit_code = int(cause["message"])
                return
        raise error_of(int(status.get("code") or 500), status, self._asked)


def _plain(data: bytes) -> Mapping[str, Any]:
    try:
        status = json.loads(data)
    except ValueError:
        status = None
    if isinstance(status, dict):
        return status
    return {"message": data.decode("utf-8", "replace")}


def open_session(
    requests: Requests, path: str, asked: Asked, query: Sequence[tuple[str, str]]
) -> KubeExecSession:
    """Start a command: nothing is repeated but what has been refused before it began."""
    connection = requests.connection
    url = f"{connection.server}{request_target(path, query)}"
    url = "ws" + url.removeprefix("http")
    headers = connection.headers()
    try:
        return KubeExecSession(_connect(requests, url, headers, asked), requests, asked)
    except ApiError as error:
        if error.code != 401 or not connection.renew(headers):
            raise
    return KubeExecSession(_connect(requests, url, connection.headers(), asked), requests, asked)


def _connect(requests: Requests, url: str, headers: Mapping[str, str], asked: Asked) -> Any:
    import websocket

    check_headers(headers)
    connection = requests.connection
    options: dict[str, Any] = {"enable_multithread": True, "skip_utf8_validation": True}
    if url.startswith("wss:"):
        options["sslopt"] = connection.tls()
    socket: Any = websocket.WebSocket(**options)
    try:
        socket.connect(
            url,
            header=[f"{key}: {value}" for key, value in headers.items()],
            subprotocols=list(_PROTOCOLS),
            suppress_origin=True,
            timeout=requests.timing.answer,
            redirect_limit=0,
            **connection.proxy(),
        )
    except websocket.WebSocketBadStatusException as error:
        body: Any = error.resp_body
        # Not from the library's error: its text holds headers.
        raise error_of(error.status_code, status_in(body or b""), asked) from None
    except (OSError, websocket.WebSocketException) as error:
        socket.shutdown()
        message = f"{connection.server} cannot be reached: {type(error).__name__}"
        raise ClusterUnavailable(message) from error
    return socket
