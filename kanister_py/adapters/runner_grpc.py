"""Composition functions over gRPC."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# Problems of connections are reported by our errors. The library's log would repeat them for every
# attempt. The variable is read when the library is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from typing import NamedTuple

import grpc

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.errors import CertificatesUnreadable
from kanister_py.executor.answer_budget import AnswerBudget
from kanister_py.executor.wire_messages import read_response, write_request
from kanister_py.ports.function_runner import (
    ANSWER_LIMIT_BYTES,
    FunctionAnswerInvalid,
    FunctionAnswerTooLarge,
    FunctionCall,
    FunctionCallError,
    FunctionCallFailed,
    FunctionCertificateRefused,
    FunctionNotServed,
    FunctionOverloaded,
    FunctionRequestInvalid,
    FunctionTimedOut,
    FunctionUnavailable,
    max_values,
    mebibytes,
    too_large,
    too_many_values,
)
from kanister_py.ports.tracing import HEADER, traceparent
from kanister_py.proto.encoding import NotEncodable
from kanister_py.proto.errors import NotDecodable, TooManyValues
from kanister_py.proto.messages import METHODS, V1, V1BETA1

REQUEST_LIMIT_BYTES = 64 << 20
DEFAULT_TIMEOUT_SECONDS = 60.0
_DIAGNOSIS_SECONDS = 2.0
CONNECT_SECONDS = 5.0
"""Time to connect for a controller."""
COMMAND_CONNECT_SECONDS = 10.0
"""Time to connect for a command, which waits longer because functions may just be starting.

Retries of a command do not wait again, so that a server that is not running is reported soon.
"""
MOST_CHANNELS = 8
"""Channels per revision. The kernel distributes connections randomly: with two processes behind a
port, eight connections miss one of them in 1 of 128 cases.
"""

_TOO_LARGE = re.compile(
    r"(Received|Sent) message larger than max \((\d+) vs\.? (\d+)\)", re.IGNORECASE
)
_SERVICE_CONFIG = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})


class ClientSecurity(NamedTuple):
    """Identity of a client, and the certificate authority that it trusts.

    `folder` contains tls.crt, tls.key and ca.crt, and is read again when they change. `is_insecure`
    disables TLS, and must be requested explicitly.
    """

    folder: Path | None = None
    is_insecure: bool = False
    server_name: str = ""
    """Expected name in the server's certificate, if it is not the host name."""


class GrpcRunner:
    """Runner over gRPC. The connections to a revision are closed after its last call.

    Uses the newest version of the protocol, and remembers per connection whether the function only
    supports the previous one.
    """

    def __init__(
        self,
        security: ClientSecurity,
        *,
        limit_bytes: int = 0,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        connect_seconds: float = COMMAND_CONNECT_SECONDS,
        waits_once: bool = False,
        budget: AnswerBudget | None = None,
    ) -> None:
        self._security = security
        self._limit_bytes = limit_bytes or ANSWER_LIMIT_BYTES
        self._timeout_seconds = timeout_seconds
        self._connect_seconds = connect_seconds
        self._waits_once = waits_once
        self._budget = budget or AnswerBudget()
        self._lock = threading.Lock()
        self._connections: dict[str, _Connection] = {}

    def run(self, call: FunctionCall) -> FunctionResponse:
        revision = call.revision
        where = (call.step, revision.function, revision.name)
        if not revision.endpoint:
            raise FunctionNotServed(*where, "the endpoint is empty")
        try:
            request = write_request(call.request)
        except NotEncodable as error:
            raise FunctionRequestInvalid(
                *where, f"the request cannot be encoded: {error}"
            ) from None
        limit_bytes = revision.answer_limit_bytes or self._limit_bytes
        timeout_seconds = call.timeout_seconds or self._timeout_seconds
        with self._connection(revision.name, revision.endpoint, limit_bytes) as connection:
            try:
                answer = connection.call(request, timeout_seconds)
            except grpc.RpcError as error:
                connect_seconds = min(timeout_seconds, self._connect_seconds)
                raise self._error_of(error, where, connection, connect_seconds) from error
        self._budget.take(len(answer))
        try:
            return read_response(answer, call.request, max_values(limit_bytes))
        except TooManyValues:
            raise FunctionAnswerTooLarge(*where, too_many_values(limit_bytes)) from None
        except NotDecodable as error:
            why = f"the response is invalid: {error}"
            raise FunctionAnswerInvalid(*where, why) from None

    @contextmanager
    def _connection(self, name: str, endpoint: str, limit_bytes: int) -> Iterator[_Connection]:
        """Yield the connection to a revision, which remains open during the block."""
        identity = _Identity(endpoint, _certificates_of(self._security), limit_bytes)
        with self._lock:
            connection = self._connections.get(name)
            if connection is None or connection.identity != identity:
                if connection is not None:
                    connection.retire()
                connection = _Connection(
                    identity, self._security, self._connect_seconds, waits_once=self._waits_once
                )
                self._connections[name] = connection
            connection.enter()
        try:
            yield connection
        finally:
            connection.leave()

    def keep_only(self, revisions: Collection[str]) -> None:
        """Close the connections to all other revisions once their last calls have ended."""
        with self._lock:
            for name in [name for name in self._connections if name not in revisions]:
                self._connections.pop(name).retire()

    def close(self) -> None:
        with self._lock:
            gone = list(self._connections.values())
            self._connections.clear()
        for connection in gone:
            connection.retire()
        for connection in gone:
            connection.wait_until_closed()

    def _error_of(
        self,
        error: Any,
        where: tuple[str, str, str],
        connection: _Connection,
        connect_seconds: float,
    ) -> FunctionCallError:
        code, details = error.code(), " ".join((error.details() or "").split())
        at = f" at {connection.endpoint}"
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            refused = connection.why_refused()
            if refused:
                return FunctionCertificateRefused(*where, f"{refused}{at}")
        if code is grpc.StatusCode.CANCELLED:
            # Calls are never cancelled here: a server does that to new calls while it stops.
            return FunctionUnavailable(*where, f"it stopped during the call{at}")
        if code is grpc.StatusCode.UNAVAILABLE:
            within = f" within {connect_seconds:g} s" if _was_never_reached(error) else ""
            return FunctionUnavailable(*where, f"it cannot be reached{at}{within}: {details}")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return FunctionTimedOut(*where, f"it did not respond in time{at}")
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            # This code has two meanings: too busy, which is transient, and too large, which is not.
            if match := _TOO_LARGE.search(details):
                size, limit = int(match[2]), int(match[3])
                if match[1] == "Received":
                    return FunctionAnswerTooLarge(*where, too_large(size, limit))
                why = f"the request has {mebibytes(size)}, and the limit is {mebibytes(limit)}"
                return FunctionRequestInvalid(*where, why)
            if "larger than max" in details.casefold():  # after decompression
                limit = connection.identity.limit_bytes
                return FunctionAnswerTooLarge(*where, too_large(None, limit))
            return FunctionOverloaded(*where, f"it has no capacity for the call: {details}")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return FunctionNotServed(*where, f"no composition function is served{at}")
        why = f"{code.name.casefold()}: {details}" if details else code.name.casefold()
        return FunctionCallFailed(*where, why)


class _Identity(NamedTuple):
    """Identity of a connection. If it changes, a new connection is opened."""

    address: str
    certificates: tuple[bytes, ...]
    limit_bytes: int


class _Channel:
    """A TCP connection to each address of a revision, and the number of its calls in progress."""

    def __init__(self, channel: Any) -> None:
        self.close = channel.close
        self._channel = channel
        self.methods = {package: channel.unary_unary(METHODS[package]) for package in METHODS}
        self.calls = 0

    def connects(self, timeout_seconds: float) -> bool:
        """Wait for the connection. Returns False if it is not established in time."""
        is_ready = grpc.channel_ready_future(self._channel)
        try:
            is_ready.result(timeout_seconds)
        except grpc.FutureTimeoutError:
            is_ready.cancel()  # ends its subscription to the channel
            return False
        return True


class _Connection:
    """Channels to one revision, and the number of calls in progress.

    A call that overlaps with others opens another channel, up to a limit: sequential calls share
    one, and concurrent callers soon reach all processes that share a port.
    """

    def __init__(
        self,
        identity: _Identity,
        security: ClientSecurity,
        connect_seconds: float,
        *,
        waits_once: bool,
    ) -> None:
        self.identity = identity
        self._connect_seconds = connect_seconds
        self._waits_once = waits_once
        self._certificates = identity.certificates
        # Endpoints with pod addresses have no host name, so the name is appended to them.
        self.endpoint, _, named = identity.address.partition("#")
        self._server_name = named or security.server_name
        self._security = security
        self._package = V1
        self._is_proven = False
        self._ended = threading.Condition()
        self._channels: list[_Channel] = []
        """The most recently used channel is the last."""
        self._calls = 0
        self._is_retired = False

    def _open(self) -> Any:
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", self.identity.limit_bytes),
            ("grpc.max_send_message_length", REQUEST_LIMIT_BYTES),
            ("grpc.service_config", _SERVICE_CONFIG),
            # By default, gRPC shares connections between channels to the same address.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            # Timeout of a single connection attempt.
            ("grpc.min_reconnect_backoff_ms", int(CONNECT_SECONDS * 1000)),
            # Bandwidth probing enlarges the window so far that an oversized message is received
            # completely before it is rejected.
            ("grpc.http2.bdp_probe", 0),
        ]
        if self._security.is_insecure:
            return grpc.insecure_channel(self.endpoint, options)
        if self._server_name:
            options.append(("grpc.ssl_target_name_override", self._server_name))
        authority, certificate, key = self._certificates
        credentials = grpc.ssl_channel_credentials(authority, key or None, certificate or None)
        return grpc.secure_channel(self.endpoint, credentials, options)

    def call(self, request: bytes, timeout_seconds: float) -> bytes:
        until = time.monotonic() + timeout_seconds
        channel = self._take_channel()
        try:
            answer = self._try(channel, request, until)
        except grpc.RpcError as error:
            if not _is(error, grpc.StatusCode.UNIMPLEMENTED) or self._package == V1BETA1:
                raise
            answer = self._try(channel, request, until, V1BETA1)
            self._package = V1BETA1
        finally:
            with self._ended:
                channel.calls -= 1
        self._is_proven = True
        return answer

    def _take_channel(self) -> _Channel:
        """Return the channel with the fewest calls; of several, the least recently used."""
        with self._ended:
            is_alone = self._calls == 1
            if not self._channels or (not is_alone and len(self._channels) < MOST_CHANNELS):
                channel = _Channel(self._open())
            else:
                channel = min(self._channels, key=_CALLS_OF)
                self._channels.remove(channel)
            self._channels.append(channel)
            channel.calls += 1
            return channel

    def _try(self, channel: _Channel, request: bytes, until: float, package: str = "") -> bytes:
        method = partial(channel.methods[package or self._package], metadata=_metadata())
        answer: bytes
        connect_seconds = self._connect_seconds
        connect_until = min(until, time.monotonic() + connect_seconds)
        try:
            answer = method(request, timeout=_left(until))
        except grpc.RpcError as error:
            # Without this check, the call would wait until its timeout for a server whose
            # certificate is rejected.
            if not _was_never_reached(error) or (not self._is_proven and self.why_refused()):
                raise
            unreached = error
        else:
            return answer
        if not (connect_seconds and channel.connects(_left(connect_until))):
            if self._waits_once:
                self._connect_seconds = 0.0
            raise unreached
        answer = method(request, timeout=_left(until))
        return answer

    def why_refused(self) -> str:
        """Return the reason why the TLS handshake fails; empty if it does not."""
        if self._security.is_insecure:
            return ""
        place = _place_of(self.endpoint)
        if place is None:
            return ""
        authority, certificate, key = self._certificates
        host, port = place
        try:
            context = ssl.create_default_context(cadata=authority.decode())
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.set_alpn_protocols(["h2"])
            with _own_certificate(certificate, key) as paths:
                if paths is not None:
                    context.load_cert_chain(*paths)
            with (
                socket.create_connection((host, port), _DIAGNOSIS_SECONDS) as plain,
                context.wrap_socket(plain, server_hostname=self._server_name or host) as secured,
            ):
                # With TLS 1.3, a server rejects a client certificate only after the client has
                # completed its handshake. A server that accepts it sends the first message, so this
                # read ends.
                if not secured.recv(1):
                    return "it rejects our certificate: it closes the connection"
        except ssl.SSLCertVerificationError as error:
            return f"its certificate is not trusted: {error.verify_message}"
        except ssl.SSLError as error:
            if "ALERT" in (error.reason or "") or "EOF" in (error.reason or ""):
                return f"it rejects our certificate: {error.reason}"
            if error.reason == "WRONG_VERSION_NUMBER":
                return "it does not speak TLS"
        except ConnectionResetError:
            return "it rejects our certificate: it closes the connection"
        except (OSError, ValueError):
            return ""
        return ""

    def enter(self) -> None:
        with self._ended:
            self._calls += 1

    def leave(self) -> None:
        with self._ended:
            self._calls -= 1
            self._close_if_idle()

    def retire(self) -> None:
        with self._ended:
            self._is_retired = True
            self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._is_retired and not self._calls:
            for channel in self._channels:
                channel.close()
            self._ended.notify_all()

    def wait_until_closed(self) -> None:
        with self._ended:
            self._ended.wait_for(lambda: not self._calls)


_CALLS_OF = attrgetter("calls")


def _metadata() -> tuple[tuple[str, str], ...]:
    """Return the metadata of a request: its `traceparent`, if any."""
    named = traceparent()
    return ((HEADER, named),) if named else ()


def _certificates_of(security: ClientSecurity) -> tuple[bytes, ...]:
    """Read the certificates of a client. If their content changes, a new connection is opened."""
    if security.is_insecure:
        return ()
    folder = security.folder
    if folder is None:
        raise CertificatesUnreadable(
            "no folder",
            "no folder is set; set one with ca.crt, tls.crt and tls.key, or use insecure",
        )
    paths = [folder / name for name in _FILES]
    try:
        stamp = tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)
        cached = _READ.get(folder)
        if cached is None or cached[0] != stamp:
            # A client certificate is optional, the certificate authority is not.
            read = tuple(
                path.read_bytes() if path.name == "ca.crt" or path.exists() else b""
                for path in paths
            )
            cached = _READ[folder] = (stamp, read)
    except OSError as error:
        raise CertificatesUnreadable(str(folder), f"{error.filename}: {error.strerror}") from None
    return cached[1]


_FILES = ("ca.crt", "tls.crt", "tls.key")
_READ: dict[Path, tuple[tuple[int, ...], tuple[bytes, ...]]] = {}


@contextmanager
def _own_certificate(certificate: bytes, key: bytes) -> Iterator[tuple[str, str] | None]:
    """Write a certificate to files, because the ssl module reads only files."""
    if not certificate or not key:
        yield None
        return
    with TemporaryDirectory() as folder:
        paths = (Path(folder) / "tls.crt", Path(folder) / "tls.key")
        paths[0].write_bytes(certificate)
        paths[1].touch(mode=0o600)
        paths[1].write_bytes(key)
        yield str(paths[0]), str(paths[1])


def _place_of(endpoint: str) -> tuple[str, int] | None:
    """Return the host and port of a gRPC endpoint; of several, the first."""
    if endpoint.startswith("unix:"):
        return None
    address = endpoint
    for scheme in ("dns:", "ipv4:", "ipv6:"):
        if address.startswith(scheme):
            address = address.removeprefix(scheme)
            if address.startswith("//"):
                address = address[2:].partition("/")[2]
    host, _, port = address.partition(",")[0].rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() else None


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0.001)


def _is(error: Any, code: Any) -> bool:
    return error.code() is code


def _was_never_reached(error: Any) -> bool:
    """Return True if a call was never sent, so that it can be retried."""
    details = (error.details() or "").casefold()
    return _is(error, grpc.StatusCode.UNAVAILABLE) and (
        "failed to connect" in details or "backends failing" in details or "resolution" in details
    )
