"""Commands in containers, over WebSocket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from socket import SHUT_RDWR
from typing import Any, Final

from kanister_py.adapters.cluster_kube.error_responses import Subject, error_of, status_in
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
    """A command on an open connection, from its start to its exit code.

    A command may print nothing for hours, so pings check the connection. If they are not answered,
    `StreamLost` is raised.
    """

    def __init__(self, socket: Any, requests: Requests, subject: Subject) -> None:
        self._socket = socket
        self._timing = requests.timing
        self._subject = subject
        self._protocol = str(socket.getsubprotocol() or "")
        # Reading and writing exclude each other, because they share the state of TLS.
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
                self._release()

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
                f"The cluster cannot close the standard input of a command: it supports "
                f"{self._protocol or 'no protocol'}, and {_V5} is needed",
                resource=self._subject.resource,
                name=self._subject.name,
            )
        self._send(bytes([_CLOSE, _STDIN]))

    def close(self) -> None:
        """Close the connection, and unblock a reader in another thread."""
        if self._was_closed.is_set():
            return
        self._was_closed.set()
        # A close frame is sent only if no other thread is sending; closing the connection has the
        # same effect.
        if self._lock.acquire(timeout=_CLOSE_SECONDS):
            try:
                with suppress(Exception):  # it may be broken in any way
                    self._socket.send_close()
            finally:
                self._lock.release()
        # The library's `abort` does nothing once it has sent a close frame. The reader may have
        # closed the connection already, and the peer may be gone.
        with suppress(OSError, AttributeError):
            self._socket.sock.shutdown(SHUT_RDWR)
        with self._state:
            is_read = self._is_read
        if not is_read:
            # Otherwise the reader, which this wakes up, closes it.
            self._release()

    def __exit__(self, *exc: object) -> None:
        self.close()
        self._release()

    def _release(self) -> None:
        # Serialised, because closing is not atomic in the library.
        with self._state:
            self._socket.shutdown()

    # Stream

    def _receive(self) -> bytes | None:
        """Return the next message; empty if closed here. Raises an error if the stream is lost."""
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
            raise self._lost("it was closed before the exit code of the command")
        if opcode in (websocket.ABNF.OPCODE_PING, websocket.ABNF.OPCODE_PONG):
            return b""
        return bytes(frame.data)

    def _wait_for_data(self) -> None:
        """Block until there is data, sending pings while waiting."""
        from urllib3.util import wait_for_read

        socket = self._socket.sock
        pending = getattr(socket, "pending", None)
        if pending is not None and pending():
            return
        for _ in range(self._timing.unanswered_pings + 1):
            # `select` does not support file descriptors above 1023.
            if wait_for_read(socket, self._timing.ping) or self._was_closed.is_set():
                return
            with self._lock:
                self._socket.ping()
        raise self._lost("the server does not respond")

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
        message = f"the stream of a command in pod {self._subject.name} was lost: {why}"
        return StreamLost(message, resource=self._subject.resource, name=self._subject.name)

    def _end(self, data: bytes) -> None:
        """Record the exit code of the command. Raises an error if it could not be started."""
        status = status_in(data) or _plain(data)
        self._has_ended = True
        if status.get("status") == "Success":
            self._exit_code = 0
            return
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode":
                self._exit_code = int(cause["message"])
                return
        raise error_of(int(status.get("code") or 500), status, self._subject)


def _plain(data: bytes) -> Mapping[str, Any]:
    try:
        status = json.loads(data)
    except ValueError:
        status = None
    if isinstance(status, dict):
        return status
    return {"message": data.decode("utf-8", "replace")}


def open_session(
    requests: Requests, path: str, subject: Subject, query: Sequence[tuple[str, str]]
) -> KubeExecSession:
    """Start a command. Only requests that were rejected before the start are retried."""
    connection = requests.connection
    url = f"{connection.server}{request_target(path, query)}"
    url = "ws" + url.removeprefix("http")
    headers = connection.headers()
    try:
        return KubeExecSession(_connect(requests, url, headers, subject), requests, subject)
    except ApiError as error:
        if error.code != 401 or not connection.renew(headers):
            raise
    return KubeExecSession(
        _connect(requests, url, connection.headers(), subject), requests, subject
    )


def _connect(requests: Requests, url: str, headers: Mapping[str, str], subject: Subject) -> Any:
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
        # The text of the library's error would contain headers.
        raise error_of(error.status_code, status_in(body or b""), subject) from None
    except (OSError, websocket.WebSocketException) as error:
        socket.shutdown()
        message = f"{connection.server} cannot be reached: {type(error).__name__}"
        raise ClusterUnavailable(message) from error
    return socket
