"""gRPC server of one composition function, in both versions of the protocol.

The server runs on an event loop. Coroutine functions run on the loop; other functions run
in a bounded thread pool, so that a blocked call delays neither health checks nor other calls.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from inspect import iscoroutinefunction
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import grpc
import grpc.aio

from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse
from kanister_py.core.errors import KanisterError, TransientError, UsageError
from kanister_py.executor.wire_messages import read_request, write_response
from kanister_py.grpc_api.introspection import Introspection
from kanister_py.ports.function_runner import FunctionCallError
from kanister_py.proto.encoding import NotEncodable
from kanister_py.proto.errors import NotDecodable
from kanister_py.proto.messages import SERVICE, V1, V1BETA1

if TYPE_CHECKING:
    from kanister_py.grpc_api.certificates import ServerCertificates

DEFAULT_LIMIT_BYTES = 64 * 1024 * 1024
_CUT_OFF_SECONDS = 2.0
"""Time to cancel calls that are still active after their grace period."""
_LOG = logging.getLogger(__name__)


_Result = TypeVar("_Result")
Served: TypeAlias = (
    Callable[[FunctionRequest], FunctionResponse]
    | Callable[[FunctionRequest], Awaitable[FunctionResponse]]
)
"""Handles a request: coroutine functions on the loop, others on a thread of the pool."""


class ServerSettings(NamedTuple):
    """Address, certificates and limits. Without certificates the server uses no TLS."""

    address: str
    certificates: ServerCertificates | None = None
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    grace_seconds: float = 30.0
    workers: int = 16
    """Number of threads for functions that are not coroutines; further calls wait."""
    shares_port: bool = False
    """Whether other processes may listen on the same port and get a share of the calls."""
    observe: Callable[[str, str, float], None] | None = None
    """Receives version of the protocol, status code and duration of each call."""


class FunctionServer:
    """Server of one function, on an event loop in a thread of its own."""

    def __init__(self, function: Served, settings: ServerSettings) -> None:
        self._function = function
        self._settings = settings
        self._introspection = Introspection([f"{V1}.{SERVICE}", f"{V1BETA1}.{SERVICE}"])
        self._observe = settings.observe
        if _LOG.isEnabledFor(logging.DEBUG):
            self._observe = _logged(settings.observe)
        self._working: set[object] = set()
        """One entry for each call that the function is answering."""
        self._threads = ThreadPoolExecutor(settings.workers, "composition function")
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="gRPC server", daemon=True)
        self._thread.start()
        try:
            self._server, self.port = self._on_loop(self._listen()).result()
        except BaseException:
            self._end_loop()
            raise

    def _on_loop(self, coroutine: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def _listen(self) -> tuple[Any, int]:
        settings = self._settings
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", settings.limit_bytes),
                ("grpc.max_send_message_length", settings.limit_bytes),
                # Two servers on one address would share the calls without any error.
                ("grpc.so_reuseport", int(settings.shares_port)),
            ],
        )
        handlers = list(self._introspection.handlers())
        for package in (V1, V1BETA1):
            run = grpc.unary_unary_rpc_method_handler(self._handler(package.rpartition(".")[2]))
            method = {"RunFunction": run}
            handlers.append(grpc.method_handlers_generic_handler(f"{package}.{SERVICE}", method))
        server.add_generic_rpc_handlers(tuple(handlers))
        try:
            if settings.certificates is None:
                bound = server.add_insecure_port(settings.address)
            else:
                credentials = settings.certificates.credentials()
                bound = server.add_secure_port(settings.address, credentials)
        except RuntimeError:
            bound = 0
        if not bound:
            # gRPC does not report which of the two it is.
            raise OSError(0, "it is in use, or not an address of this machine", settings.address)
        return server, bound

    def start(self) -> None:
        self._on_loop(self._server.start()).result()

    def stop(self) -> bool:
        """Refuse new calls, and wait until active ones have ended or the grace period is over.

        Returns False if the function is still running a call that was cancelled.
        """
        if self._loop.is_closed():
            return not self._working
        self._introspection.is_serving = False
        grace = self._settings.grace_seconds
        stopping = self._on_loop(self._server.stop(grace))
        try:
            stopping.result(grace + _CUT_OFF_SECONDS)
        except TimeoutError:
            return False  # a coroutine function blocks the loop
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._end_loop()
        return not self._working

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _handler(self, version: str) -> Callable[[bytes, Any], Awaitable[bytes]]:
        observe = self._observe
        answer = self._answer_on_loop if iscoroutinefunction(self._function) else self._answer

        async def run_function(data: bytes, context: Any) -> bytes:
            started = time.perf_counter()
            code = grpc.StatusCode.OK
            try:
                return await answer(data)
            except asyncio.CancelledError:
                code = grpc.StatusCode.CANCELLED
                raise
            except BaseException as error:  # noqa: BLE001 - not even an exit may end the loop
                code, message = _status_of(error)
                if code is grpc.StatusCode.INTERNAL:
                    _LOG.error("The function failed", exc_info=error)
            finally:
                if observe is not None:
                    observe(version, code.name, time.perf_counter() - started)
            await context.abort(code, message)
            raise AssertionError("abort always raises")

        return run_function

    async def _answer_on_loop(self, data: bytes) -> bytes:
        call = object()
        self._working.add(call)
        try:
            return write_response(await self._function(read_request(data)))  # type: ignore[misc]  # it is a coroutine function
        finally:
            self._working.discard(call)

    async def _answer(self, data: bytes) -> bytes:
        answer = await self._loop.run_in_executor(self._threads, self._work, data)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _work(self, data: bytes) -> bytes | BaseException:
        """Handle a call on a thread. Errors are returned because an exit must not end the loop."""
        call = object()
        self._working.add(call)
        try:
            return write_response(self._function(read_request(data)))  # type: ignore[arg-type]  # it is not a coroutine function
        except BaseException as error:  # noqa: BLE001 - a function may raise anything
            return error
        finally:
            self._working.discard(call)


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
    # The caller adds step and revision, which it knows.
    message = error.why if isinstance(error, FunctionCallError) else str(error)
    if isinstance(error, TransientError):
        return code.UNAVAILABLE, message
    if isinstance(error, UsageError):
        return code.INVALID_ARGUMENT, message
    if isinstance(error, KanisterError):
        return code.INTERNAL, message
    return code.INTERNAL, f"{type(error).__name__}: {error}"
