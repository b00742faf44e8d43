"""Requests to an API server, and their retries."""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kanister_py.adapters.cluster_kube.connection import Connection, ImpersonatingConnection
from kanister_py.adapters.cluster_kube.error_responses import (
    NotConnected,
    Subject,
    error_of,
    reason_of,
    status_in,
)
from kanister_py.core.errors import (
    ApiError,
    ClusterUnavailable,
    NotFound,
    RequestTimeout,
    TooManyRequests,
    UsageError,
)
from kanister_py.core.kube.request_paths import check_headers, request_target
from kanister_py.core.retries import NO_LIMIT, RetryRule
from kanister_py.ports.clock import Clock, pause
from kanister_py.ports.cluster import Stream

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse


class ServerNotTrusted(ApiError, UsageError, reason="ServerNotTrusted", code=495):
    """The server at the cluster's address has an invalid certificate."""


_log = logging.getLogger(__name__)

Query: TypeAlias = Sequence[tuple[str, str]]
"""Query parameters, in order."""

_PIECE: Final = 64 * 1024
_USER_AGENT: Final = "kanister-py"
# Other server errors, such as a failing webhook, rarely disappear quickly.
_MAX_FAILURES: Final = 3
_UNAVAILABLE: Final = frozenset({502, 503, 504})
_MAX_RETRY_AFTER_SECONDS: Final = 30.0


class Timing(NamedTuple):
    """Time limits of the adapter, in seconds."""

    connect: float = 10.0
    answer: float = 30.0
    """Time without data in a response, after which repeatable requests are retried."""
    only_answer: float = 70.0
    """The same for other requests: longer than the API server's own request timeout."""
    patience: float = 30.0
    """Total time for the retries of a request."""
    first_patience: float = 2.0
    """The same until the server has responded once, because the address may be wrong."""
    pauses: RetryRule = RetryRule(NO_LIMIT, 0.1, 2.0, 5.0)
    watch: float = 60.0
    """Timeout of a watch on the server, after which it is resumed."""
    silence: float = 15.0
    """Additional time that a watch may stay without data."""
    log_silence: float = 60.0
    """Time without data after which a followed log is requested again and resumed."""
    ping: float = 10.0
    """Time without data in a command's stream after which a ping is sent."""
    unanswered_pings: int = 3


class Request(NamedTuple):
    """One request to the API server.

    `is_repeatable` marks requests that have the same effect if they are sent twice.
    `ignores_missing` treats NotFound as success if an earlier attempt may have been executed.
    """

    method: str
    path: str
    subject: Subject
    query: Query = ()
    body: Any = None
    content_type: str = "application/json"
    is_repeatable: bool = False
    ignores_missing: bool = False
    silence: float | None = None
    required_key: str = "kind"
    """Key that a valid response must contain."""


class _NoResponse(Exception):
    """No valid response. `was_sent` is set if the server may have received the request."""

    def __init__(self, why: str, *, was_sent: bool, is_garbled: bool = False) -> None:
        super().__init__(why)
        self.was_sent = was_sent
        self.is_garbled = is_garbled


class Requests:
    """Thread-safe client of an API server that retries requests where this is safe."""

    def __init__(
        self, connection: Connection | ImpersonatingConnection, clock: Clock, timing: Timing
    ) -> None:
        self.connection = connection
        self.clock = clock
        self.timing = timing
        # Only spreads retries over time, so it need not be cryptographically secure.
        self._random = random.Random()  # noqa: S311 # see above
        self._pause = threading.Condition()
        self._is_closed = False
        self._was_answered = False

    def json(self, request: Request) -> dict[str, Any]:
        """Send a request, and return the JSON of the response."""
        answer: dict[str, Any] = self._answer(request, is_stream=False)
        return answer

    def stream(self, request: Request) -> Any:
        """Send a request, and return the response unread; the caller closes it."""
        return self._answer(request, is_stream=True)

    def pause(self, seconds: float) -> None:
        """Sleep, unless the cluster is closed."""
        pause(self.clock, self._pause, seconds, lambda: self._is_closed)

    def close(self) -> None:
        with self._pause:
            self._is_closed = True
            self._pause.notify_all()
        self.connection.close()

    @property
    def _server(self) -> str:
        return self.connection.server

    def _answer(self, request: Request, *, is_stream: bool) -> Any:
        tries = _Attempts(self, request)
        while True:
            headers = self.connection.headers()
            try:
                response = self._send(request, headers)
                self._was_answered = True
                if 200 <= response.status < 300:
                    if is_stream:
                        self.connection.pool.allow_silence(response)
                        return response
                    return self._object(response, request)
                error = self._error(response, request)
            except _NoResponse as lost:
                tries.pause_after_loss(lost)
                continue
            if response.status == 401 and not tries.was_renewed:
                tries.was_renewed = True
                if self.connection.renew(headers):
                    continue
            if isinstance(error, NotFound) and request.ignores_missing and tries.was_uncertain:
                return {}
            tries.pause_after(error, response.status)

    def _send(self, request: Request, credentials: Mapping[str, str]) -> BaseHTTPResponse:
        from urllib3.exceptions import HTTPError

        target = request_target(request.path, request.query)
        headers = {"Accept": "application/json", "User-Agent": _USER_AGENT, **credentials}
        body = None
        if request.body is not None:
            headers["Content-Type"] = request.content_type
            body = json.dumps(request.body, separators=(",", ":")).encode()
        check_headers(headers)
        try:
            return self.connection.pool.send(
                request.method,
                target,
                headers,
                body,
                connect_seconds=self.timing.connect,
                read_seconds=self._silence(request),
            )
        except NotConnected as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error) or "doesn't match" in str(error):
                message = f"{self._server} shows a certificate that is not trusted: {error}"
                raise ServerNotTrusted(message) from error
            raise _NoResponse(str(error), was_sent=False) from error
        except (HTTPError, OSError) as error:
            raise _NoResponse(reason_of(error), was_sent=True) from error

    def _silence(self, request: Request) -> float:
        if request.silence is not None:
            return request.silence
        return self.timing.answer if request.is_repeatable else self.timing.only_answer

    def _read(self, response: BaseHTTPResponse) -> bytes:
        from urllib3.exceptions import HTTPError

        pieces = []
        try:
            # In chunks, so that a large Content-Length does not allocate memory by itself.
            while piece := response.read1(_PIECE):
                pieces.append(piece)
        except (HTTPError, OSError) as error:
            response.close()
            raise _NoResponse(reason_of(error), was_sent=True) from error
        response.release_conn()
        return b"".join(pieces)

    def _object(self, response: BaseHTTPResponse, request: Request) -> dict[str, Any]:
        """Parse a response. Anything but a Kubernetes object is an error, even with status 200."""
        body = self._read(response)
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            parsed = None
        why = _problem_of(parsed, request)
        if why:
            raise _NoResponse(f"{response.status} with {why}", was_sent=True, is_garbled=True)
        if parsed.get("kind") == "Status" and parsed.get("status") == "Failure":
            code = parsed.get("code")
            raise error_of(code if isinstance(code, int) else 500, parsed, request.subject)
        answer: dict[str, Any] = parsed
        return answer

    def _error(self, response: BaseHTTPResponse, request: Request) -> ApiError:
        # If the body breaks off, the status code is sufficient.
        body = b""
        with suppress(_NoResponse):
            body = self._read(response)
        if response.status < 400:
            to = response.headers.get("location") or ""
            away = f" and redirects to {to[:200]}" if to else ""
            message = f"{self._server} returned {response.status}{away}; is it an API server?"
            return ClusterUnavailable(message)
        delay = _retry_after(response.headers)
        return error_of(response.status, status_in(body), request.subject, delay)

    def jittered(self, seconds: float) -> float:
        return seconds * self._random.uniform(0.5, 1.0)

    @property
    def patience(self) -> float:
        return self.timing.patience if self._was_answered else self.timing.first_patience

    @property
    def is_closed(self) -> bool:
        return self._is_closed


class StreamBroken(Exception):
    """A stream broke. Not raised outside this package."""


class ResponseStream(Stream):
    """A response that one thread reads while it arrives, and any thread may close."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._lock = threading.Lock()
        self._was_closed = threading.Event()
        self._response: Any = None

    def close(self) -> None:
        """End the stream, and unblock a reader in another thread."""
        with self._lock:
            self._was_closed.set()
            response = self._response
        if response is not None:
            with suppress(OSError, ValueError, RuntimeError):
                response.shutdown()

    def __exit__(self, *exc: object) -> None:
        self.close()
        self._drop()

    def _ask(self, request: Request) -> None:
        """Send a request whose response becomes the stream."""
        response = self._requests.stream(request)
        with self._lock:
            self._response = response
            is_closed = self._was_closed.is_set()
        if is_closed:
            self.close()

    def _pieces(self) -> Iterator[bytes]:
        """Yield chunks of one connection until it ends. Raises `StreamBroken` if it breaks."""
        from urllib3.exceptions import HTTPError

        while not self._was_closed.is_set():
            with self._lock:
                response = self._response
            if response is None:
                return
            try:
                piece = response.read1(_PIECE)
            except (HTTPError, OSError, ValueError, AttributeError) as error:
                # StreamBroken, silent for too long, or closed by another thread at this moment.
                if self._was_closed.is_set():
                    return
                raise StreamBroken(type(error).__name__) from error
            if not piece:
                return
            yield piece

    def _drop(self) -> None:
        with self._lock:
            response, self._response = self._response, None
        if response is not None:
            with suppress(Exception):  # it may fail in any way, and is no longer used
                response.close()


def lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Split a stream into lines including their line ends; the last line may have none.

    If the stream breaks, the incomplete line is dropped, because it is sent again.
    """
    held: list[bytes] = []
    for piece in pieces:
        *complete_lines, remainder = piece.split(b"\n")
        for line in complete_lines:
            yield b"".join([*held, line, b"\n"])
            held = []
        if remainder:
            held.append(remainder)
    if held:
        yield b"".join(held)


class _Attempts:
    """Attempts of one request, and the pauses between them."""

    def __init__(self, requests: Requests, request: Request) -> None:
        self._requests = requests
        self._request = request
        self._began = requests.clock.monotonic()
        self._pauses = 0
        self._failures = 0
        self.was_uncertain = False
        self.was_renewed = False

    def pause_after_loss(self, lost: _NoResponse) -> None:
        """Wait before the next attempt, or raise an error."""
        self.was_uncertain = self.was_uncertain or lost.was_sent
        server = self._requests.connection.server
        what = "answers" if lost.is_garbled else "cannot be reached:"
        error = ClusterUnavailable(f"{server} {what} {lost}")
        if lost.was_sent and not self._request.is_repeatable:
            message = f"{server} did not respond, but may have executed the request: {lost}"
            raise ClusterUnavailable(message) from lost
        if lost.is_garbled:
            self._failures += 1
            if self._failures >= _MAX_FAILURES:
                raise error
        self._pause(error)

    def pause_after(self, error: ApiError, code: int) -> None:
        """Wait before the next attempt, or raise the error of the response."""
        if isinstance(error, TooManyRequests):
            # The server has not started to process the request.
            self._pause(error, error.delay_seconds)
            return
        if code < 500 or not self._request.is_repeatable:
            raise error
        self._failures += 1
        self.was_uncertain = True
        if code not in _UNAVAILABLE and self._failures >= _MAX_FAILURES:
            raise error
        delay = error.delay_seconds if isinstance(error, _DELAYED) else 0.0
        self._pause(error, delay)

    def _pause(self, error: ApiError, retry_after: float = 0.0) -> None:
        requests = self._requests
        self._pauses += 1
        pause = requests.jittered(requests.timing.pauses.delay_after(self._pauses))
        if retry_after:
            # Not earlier than requested, and spread over time.
            pause += min(retry_after, _MAX_RETRY_AFTER_SECONDS)
        until = self._began + requests.patience
        if requests.is_closed or requests.clock.monotonic() + pause > until:
            raise error
        _log.debug("retrying %s %s: %s", self._request.method, self._request.path, error)
        requests.pause(pause)


_DELAYED: Final = (ClusterUnavailable, RequestTimeout)


def _problem_of(parsed: Any, request: Request) -> str:
    if not isinstance(parsed, dict):
        return "no object"
    if request.required_key not in parsed:
        return f"an object without {request.required_key}"
    metadata, expected = parsed.get("metadata"), request.subject.name
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if expected and name and name != expected:
        return f"another object: {str(name)[:100]}, not {expected}"
    return ""


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return max(0.0, float(headers.get("retry-after") or 0))
    except ValueError:
        return 0.0
