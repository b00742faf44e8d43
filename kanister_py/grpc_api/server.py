"""gRPC server of one composition function, in both versions of the protocol.

On threads, not on an event loop: a call costs a fifth less so, and a function that
waits keeps nobody else from being answered.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import grpc

from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse
from kanister_py.core.errors import KanisterError, TransientError, UsageError
from kanister_py.executor.wire_messages import read_request, write_response
from kanister_py.grpc_api.introspection import Introspection
from kanister_py.grpc_api.workers import Workers
from kanister_py.ports.function_runner import FunctionCallError
from kanister_py.proto.decoding import NotDecodable
from kanister_py.proto.encoding import NotEncodable
from kanister_py.proto.messages import SERVICE, V1, V1BETA1

if TYPE_CHECKING:
    from kanister_py.grpc_api.certificates import ServerCertificates

DEFAULT_LIMIT_BYTES = 64 * 1024 * 1024
_CUT_OFF_SECONDS = 2.0
"""How long it may take to cut off calls that were still under way after their grace."""
_LOG = logging.getLogger(__name__)


Served: TypeAlias = Callable[[FunctionRequest], FunctionResponse]
"""What answers a request, on whichever thread asks; errors are those of the core."""


class ServerSettings(NamedTuple):
    """Address, certificates and limits; without certificates, everything goes in the clear."""

    address: str
    certificates: ServerCertificates | None = None
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    grace_seconds: float = 30.0
    workers: int = 16
    """How many calls are answered at the same time; others wait."""
    shares_port: bool = False
    """Whether other processes may listen on the same port, and get their part of the calls."""
    observe: Callable[[str, str, float], None] | None = None
    """Gets the version of the protocol, how it ended and how long it took, of each call."""


class FunctionServer:
    """Server of one function; when it is stopped, calls under way are answered first."""

    def __init__(self, function: Served, settings: ServerSettings) -> None:
        self._function = function
        self._settings = settings
        self._introspection = Introspection(
            [f"{V1}.{SERVICE}", f"{V1BETA1}.{SERVICE}"], settings.workers
        )
        self._at_work: set[int] = set()
        """Threads on which the function answers at this moment."""
        self._workers = Workers(settings.workers, "composition function")
        self._server: Any = grpc.server(
            self._workers,
            options=[
                ("grpc.max_receive_message_length", settings.limit_bytes),
                ("grpc.max_send_message_length", settings.limit_bytes),
                # Two servers on one address share the calls, and nobody would notice.
                ("grpc.so_reuseport", int(settings.shares_port)),
            ],
        )
        handlers = []
        for package in (V1, V1BETA1):
            run = grpc.unary_unary_rpc_method_handler(self._handler(package.rpartition(".")[2]))
            method = {"RunFunction": run}
            handlers.append(grpc.method_handlers_generic_handler(f"{package}.{SERVICE}", method))
        # Each call asks one after the other: those that most are for come first.
        self._server.add_generic_rpc_handlers((*handlers, *self._introspection.handlers()))
        self.port = self._listen()

    def _listen(self) -> int:
        address, certificates = self._settings.address, self._settings.certificates
        try:
            bound: int = (
                self._server.add_insecure_port(address)
                if certificates is None
                else self._server.add_secure_port(address, certificates.credentials())
            )
        except RuntimeError:
            bound = 0
        if not bound:
            # gRPC does not say which of the two it is.
            raise OSError(0, "it is taken, or is none of this machine's", address)
        return bound

    def start(self) -> None:
        self._server.start()

    def stop(self) -> bool:
        """Take no more calls, and wait for those under way, for as long as was set.

        False says that a function is still at work; its caller knows that it was cut off.
        """
        self._introspection.is_serving = False
        grace = self._settings.grace_seconds
        has_stopped = self._server.stop(grace).wait(grace + _CUT_OFF_SECONDS)
        self._workers.close()
        return bool(has_stopped) and not self._at_work

    def _handler(self, version: str) -> Callable[[bytes, Any], bytes]:
        function, observe, at_work = self._function, self._settings.observe, self._at_work
        if _LOG.isEnabledFor(logging.DEBUG):
            observe = _logged(observe)

        def run_function(data: bytes, context: Any) -> bytes:
            started = time.perf_counter() if observe is not None else 0.0
            ended = "OK"
            at_work.add(get_ident())
            try:
                return write_response(function(read_request(data)))
            except BaseException as error:  # whatever a function may raise, an exit included
                code, message = _status_of(error)
                ended = code.name
                if code is grpc.StatusCode.INTERNAL:
                    _LOG.error("The function failed", exc_info=error)
                context.abort(code, message)
                raise
            finally:
                at_work.discard(get_ident())
                if observe is not None:
                    observe(version, ended, time.perf_counter() - started)

        return run_function


_Observe: TypeAlias = Callable[[str, str, float], None]


def _logged(observe: _Observe | None) -> _Observe:
    def note(version: str, ended: str, seconds: float) -> None:
        _LOG.debug("Answered a call of %s in %.1f ms: %s", version, seconds * 1000, ended)
        if observe is not None:
            observe(version, ended, seconds)

    return note


def _status_of(error: BaseException) -> tuple[Any, str]:
    code = grpc.StatusCode
    if isinstance(error, NotDecodable):
        return code.INVALID_ARGUMENT, f"The request cannot be read: {error}"
    if isinstance(error, NotEncodable):
        return code.INTERNAL, f"The response cannot be sent: {error}"
    # Who calls knows step and revision, and says them itself.
    message = error.why if isinstance(error, FunctionCallError) else str(error)
    if isinstance(error, TransientError):
        return code.UNAVAILABLE, message
    if isinstance(error, UsageError):
        return code.INVALID_ARGUMENT, message
    if isinstance(error, KanisterError):
        return code.INTERNAL, message
    return code.INTERNAL, f"{type(error).__name__}: {error}"
