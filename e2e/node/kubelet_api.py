"""The API that a node offers to an API server: logs, and commands in containers.

HTTPS with client certificates, as in a kubelet. Commands use Kubernetes' channels over
WebSocket, protocol version 5 or 4.
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import ssl
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self, cast
from urllib.parse import parse_qs, unquote, urlsplit

from e2e.cluster.certificates import Certificate
from e2e.node.websocket import ConnectionLost, Stream, WebSocket, accept_key
from e2e.tls import unwrap
from kanister_py.core.errors import KanisterError
from kanister_py.ports.cluster import (
    Channel,
    ExecSession,
    LogOptions,
    LogStream,
    PodAccess,
)

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""What we speak, best first. The fifth version can say that stdin has ended."""

_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2
_ERROR: Final = 3
_CLOSE: Final = 255
_HANDSHAKE_SECONDS: Final = 10.0


class KubeletServer:
    """Serves the pods of a node to the API server, on a free port."""

    def __init__(
        self, pods: PodAccess, serving: Certificate, authority: Path, *, address: str = "127.0.0.1"
    ) -> None:
        self._server = _Server((address, 0), _Handler)
        self._server.pods = pods
        self._server.context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=str(authority)
        )
        self._server.context.load_cert_chain(serving.certificate, serving.key)
        self._server.context.verify_mode = ssl.CERT_REQUIRED
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="kubelet", daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return self._server.connections

    def start(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop serving and cut off readers."""
        self._server.shutdown()
        self._server.cut_everybody()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A reader that waits for the next line of a log would block the shutdown.
    block_on_close = False
    pods: PodAccess
    context: ssl.SSLContext

    def __init__(
        self, address: tuple[str, int], handler: type[socketserver.BaseRequestHandler]
    ) -> None:
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Do the TLS handshake in the connection's thread: a slow client blocks no others."""
        request.settimeout(_HANDSHAKE_SECONDS)
        try:
            secured = self.context.wrap_socket(request, server_side=True)
        except (OSError, ssl.SSLError):
            return
        with unwrap(secured) as connection:
            with self._lock:
                self._open.add(connection)
            try:
                super().finish_request(connection, client_address)
            except OSError:
                # The client has disconnected.
                return
            finally:
                with self._lock:
                    self._open.discard(connection)

    @property
    def connections(self) -> int:
        return len(self._open)

    def cut_everybody(self) -> None:
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *args: Any) -> None:
        """Log nothing: clients receive the error."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query, keep_blank_values=True)
        try:
            match [unquote(part) for part in url.path.strip("/").split("/")]:
                case ["healthz"]:
                    self._answer(HTTPStatus.OK, "ok")
                case ["containerLogs", namespace, pod, container]:
                    self._send_log(namespace, pod, _log_options(container, query))
                case ["exec", namespace, pod, container] | ["exec", namespace, pod, _, container]:
                    self._exec(namespace, pod, container, query)
                case _:
                    self._answer(HTTPStatus.NOT_FOUND, f"{url.path} is not served here")
        except KanisterError as error:
            self._answer(HTTPStatus.BAD_REQUEST, error.message)
        except ValueError as error:
            self._answer(HTTPStatus.BAD_REQUEST, str(error))

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    # Logs

    def _send_log(self, namespace: str, pod: str, options: LogOptions) -> None:
        stream = self.server.pods.read_log(pod, namespace=namespace, options=options)
        with stream:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            # While nothing is written, only reading shows that the client has disconnected.
            watcher = _Watcher(self.connection, stream)
            watcher.start()
            try:
                for piece in stream:
                    if piece:
                        self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                if not watcher.is_cut:
                    self.wfile.write(b"0\r\n\r\n")
            except OSError:
                self.close_connection = True
        self.close_connection = True

    # Commands

    def _exec(
        self, namespace: str, pod: str, container: str, query: Mapping[str, list[str]]
    ) -> None:
        offered = [
            part.strip() for part in self.headers.get("Sec-WebSocket-Protocol", "").split(",")
        ]
        protocol = next((protocol for protocol in PROTOCOLS if protocol in offered), None)
        key = self.headers.get("Sec-WebSocket-Key", "")
        if self.headers.get("Upgrade", "").lower() != "websocket" or protocol is None or not key:
            self._answer(
                HTTPStatus.BAD_REQUEST,
                f"a node of processes speaks {' and '.join(PROTOCOLS)} over WebSocket only",
            )
            return
        session = self.server.pods.exec(
            pod,
            query.get("command", []),
            namespace=namespace,
            container=container,
            has_stdin=_is_true(query, "input"),
        )
        self.send_response(HTTPStatus.SWITCHING_PROTOCOLS)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept_key(key))
        self.send_header("Sec-WebSocket-Protocol", protocol)
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        wanted_channels = {
            channel
            for name, channel in (("output", Channel.STDOUT), ("error", Channel.STDERR))
            if _is_true(query, name)
        }
        web_socket = WebSocket(cast("Stream", self.rfile), cast("Stream", self.wfile))
        _Conversation(web_socket, session, wanted_channels).run()


class _Watcher(threading.Thread):
    """Stops the reading of a log when its client disconnects."""

    def __init__(self, connection: socket.socket, stream: LogStream) -> None:
        super().__init__(name="log-watch", daemon=True)
        self._connection = connection
        self._stream = stream
        self.is_cut = False

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            # The client sends nothing after the request, so readable means closed.
            self._connection.recv(1)
        self.is_cut = True
        self._stream.close()


class _Conversation:
    """One command and its client: forwards stdin, output and the exit status.

    As on any node, the command outlives a client that disconnects: only its stdin ends.
    """

    def __init__(self, web_socket: WebSocket, session: ExecSession, wanted: set[Channel]) -> None:
        self._web_socket = web_socket
        self._session = session
        self._wanted = wanted
        self._is_heard = True

    def run(self) -> None:
        reader = threading.Thread(target=self._listen, name="exec-stdin", daemon=True)
        with self._session:
            # As in a kubelet, the first, empty message says that all channels are open.
            self._tell(_STDOUT, b"")
            reader.start()
            for channel, data in self._session:
                if channel in self._wanted:
                    self._tell(_STDOUT if channel is Channel.STDOUT else _STDERR, data)
            self._tell(_ERROR, json.dumps(_outcome(self._session.exit_code)).encode())
            self._web_socket.close()
        # The client answers the close frame or disconnects; either way, no more data will follow.
        reader.join(timeout=_HANDSHAKE_SECONDS)

    def _tell(self, channel: int, data: bytes) -> None:
        if self._is_heard:
            try:
                self._web_socket.send(bytes([channel]) + data)
            except ConnectionLost:
                self._is_heard = False

    def _listen(self) -> None:
        try:
            for message in self._web_socket:
                channel, data = message[:1], message[1:]
                if channel == bytes([_STDIN]):
                    self._session.write_stdin(data)
                elif channel == bytes([_CLOSE]) and data == bytes([_STDIN]):
                    self._session.close_stdin()
        except (ConnectionLost, OSError):
            self._is_heard = False
        finally:
            self._session.close_stdin()


def _outcome(exit_code: int | None) -> dict[str, Any]:
    """Report the exit status of a command on the error channel."""
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    if exit_code is None:
        return {
            "metadata": {},
            "status": "Failure",
            "reason": "InternalError",
            "message": "the container ended before the command did",
            "code": 500,
        }
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


def _log_options(container: str, query: Mapping[str, list[str]]) -> LogOptions:
    def number(name: str) -> int | None:
        return int(query[name][-1]) if name in query else None

    return LogOptions(
        container=container,
        follow=_is_true(query, "follow"),
        previous=_is_true(query, "previous"),
        since_seconds=number("sinceSeconds"),
        since_time=query.get("sinceTime", [""])[-1],
        tail_lines=number("tailLines"),
        limit_bytes=number("limitBytes"),
        timestamps=_is_true(query, "timestamps"),
    )


def _is_true(query: Mapping[str, list[str]], name: str) -> bool:
    return query.get(name, [""])[-1].lower() in {"1", "true"}
