"""Requests to an API server: how one is made, and when it is made again."""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kanister_py.adapters.cluster_kube.answers import (
    Asked,
    NotConnected,
    error_of,
    reason_of,
    status_in,
)
from kanister_py.adapters.cluster_kube.connection import Connection, ImpersonatingConnection
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
    """A server under the cluster's address that cannot prove to be the cluster."""


_log = logging.getLogger(__name__)

Query: TypeAlias = Sequence[tuple[str, str]]
"""The pairs behind the question mark, in order."""

_PIECE: Final = 64 * 1024
_USER_AGENT: Final = "kanister-py"
# A failure of its own, such as a webhook that is down, seldom mends itself in no time.
_MOST_FAILURES: Final = 3
_UNAVAILABLE: Final = frozenset({502, 503, 504})
_LONGEST_ASKED_PAUSE: Final = 30.0


class Timing(NamedTuple):
    """Every patience of the adapter, in seconds."""

    connect: float = 10.0
    answer: float = 30.0
    """Silence in an answer, after which it is asked again where that is safe."""
    only_answer: float = 70.0
    """The same where it is not: longer than an API server takes to give up by itself."""
    patience: float = 30.0
    """How long in all a request is repeated before it fails."""
    first_patience: float = 2.0
    """The same while no request has ever been answered: it may well be the wrong address."""
    pauses: RetryRule = RetryRule(NO_LIMIT, 0.1, 2.0, 5.0)
    watch: float = 60.0
    """When the cluster ends a watch, which then goes on where it was."""
    silence: float = 15.0
    """How much longer than that a watch may stay without a word."""
    log_silence: float = 60.0
    """How long a followed log may be silent before it is asked for again, where it was."""
    ping: float = 10.0
    """Silence of a command's stream after which a ping asks whether the server is there."""
    unanswered_pings: int = 3


class Request(NamedTuple):
    """One request to the API server.

    `is_repeatable`: doing it twice does the same as doing it once. `is_gone_fine`: that
    it is not there, after a first try of which nobody knows how it ended, is what was
    wanted.
    """

    method: str
    path: str
    asked: Asked
    query: Query = ()
    body: Any = None
    content_type: str = "application/json"
    is_repeatable: bool = False
    is_gone_fine: bool = False
    silence: float | None = None
    must_hold: str = "kind"
    """The key that an answer is recognised by."""


class _Lost(Exception):
    """No answer came, or one that is none; whether the request was heard says `was_heard`."""

    def __init__(self, why: str, *, was_heard: bool, is_garbled: bool = False) -> None:
        super().__init__(why)
        self.was_heard = was_heard
        self.is_garbled = is_garbled


class Requests:
    """Client of an API server, for any thread, that repeats what is safe to repeat."""

    def __init__(
        self, connection: Connection | ImpersonatingConnection, clock: Clock, timing: Timing
    ) -> None:
        self.connection = connection
        self.clock = clock
        self.timing = timing
        # Spreads those who were refused together, no more.
        self._random = random.Random()  # noqa: S311 # see above
        self._pause = threading.Condition()
        self._is_closed = False
        self._was_answered = False

    def json(self, request: Request) -> dict[str, Any]:
        """Ask, and give the answer as JSON knows it."""
        answer: dict[str, Any] = self._answer(request, is_stream=False)
        return answer

    def stream(self, request: Request) -> Any:
        """Ask, and give the answer unread; the caller closes it."""
        return self._answer(request, is_stream=True)

    def pause(self, seconds: float) -> None:
        """Let time pass, unless the cluster is closed."""
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
        tries = _Tries(self, request)
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
            except _Lost as lost:
                tries.pause_after_loss(lost)
                continue
            if response.status == 401 and not tries.was_renewed:
                tries.was_renewed = True
                if self.connection.renew(headers):
                    continue
            if isinstance(error, NotFound) and request.is_gone_fine and tries.was_in_doubt:
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
            raise _Lost(str(error), was_heard=False) from error
        except (HTTPError, OSError) as error:
            raise _Lost(reason_of(error), was_heard=True) from error

    def _silence(self, request: Request) -> float:
        if request.silence is not None:
            return request.silence
        return self.timing.answer if request.is_repeatable else self.timing.only_answer

    def _read(self, response: BaseHTTPResponse) -> bytes:
        from urllib3.exceptions import HTTPError

        pieces = []
        try:
            # Piece by piece: a length that a server names is no reason to allocate it.
            while piece := response.read1(_PIECE):
                pieces.append(piece)
        except (HTTPError, OSError) as error:
            response.close()
            raise _Lost(reason_of(error), was_heard=True) from error
        response.release_conn()
        return b"".join(pieces)

    def _object(self, response: BaseHTTPResponse, request: Request) -> dict[str, Any]:
        """Read an answer. What does not look like one is none, whatever its code says."""
        body = self._read(response)
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            parsed = None
        why = _why_no_answer(parsed, request)
        if why:
            raise _Lost(f"{response.status} with {why}", was_heard=True, is_garbled=True)
        if parsed.get("kind") == "Status" and parsed.get("status") == "Failure":
            code = parsed.get("code")
            raise error_of(code if isinstance(code, int) else 500, parsed, request.asked)
        answer: dict[str, Any] = parsed
        return answer

    def _error(self, response: BaseHTTPResponse, request: Request) -> ApiError:
        # An answer that breaks off is an answer all the same, if its code is known.
        body = b""
        with suppress(_Lost):
            body = self._read(response)
        if response.status < 400:
            to = response.headers.get("location") or ""
            away = f" and sends us to {to[:200]}" if to else ""
            message = (
                f"{self._server} answers {response.status}{away}: that is no API server's answer"
            )
            return ClusterUnavailable(message)
        delay = _retry_after(response.headers)
        return error_of(response.status, status_in(body), request.asked, delay)

    def jittered(self, seconds: float) -> float:
        return seconds * self._random.uniform(0.5, 1.0)

    @property
    def patience(self) -> float:
        return self.timing.patience if self._was_answered else self.timing.first_patience

    @property
    def is_closed(self) -> bool:
        return self._is_closed


class Broken(Exception):
    """A stream that broke off; it never leaves this package."""


class Streamed(Stream):
    """An answer that is read as it comes, by one thread, and may be ended by any other."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._lock = threading.Lock()
        self._was_closed = threading.Event()
        self._response: Any = None

    def close(self) -> None:
        """End the stream, and let a reader in another thread go."""
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
        """Take up the answer to a request."""
        response = self._requests.stream(request)
        with self._lock:
            self._response = response
            is_closed = self._was_closed.is_set()
        if is_closed:
            self.close()

    def _pieces(self) -> Iterator[bytes]:
        """Give what one connection brings, to its end; raise `Broken` where it breaks off."""
        from urllib3.exceptions import HTTPError

        while not self._was_closed.is_set():
            with self._lock:
                response = self._response
            if response is None:
                return
            try:
                piece = response.read1(_PIECE)
            except (HTTPError, OSError, ValueError, AttributeError) as error:
                # Broken, silent for too long, or closed by another thread under our hands.
                if self._was_closed.is_set():
                    return
                raise Broken(type(error).__name__) from error
            if not piece:
                return
            yield piece

    def _drop(self) -> None:
        with self._lock:
            response, self._response = self._response, None
        if response is not None:
            with suppress(Exception):  # it may be broken in any way; nobody reads it any more
                response.close()


def lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Cut a stream into lines with their ends; what comes after the last one counts, too.

    Where the stream breaks off, what there is of a line is left out: it comes again.
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


class _Tries:
    """Tries of one request so far, and the pauses between them."""

    def __init__(self, requests: Requests, request: Request) -> None:
        self._requests = requests
        self._request = request
        self._began = requests.clock.monotonic()
        self._pauses = 0
        self._failures = 0
        self.was_in_doubt = False
        self.was_renewed = False

    def pause_after_loss(self, lost: _Lost) -> None:
        """Wait until it is time to ask again, or raise what there is to say."""
        self.was_in_doubt = self.was_in_doubt or lost.was_heard
        server = self._requests.connection.server
        what = "answers" if lost.is_garbled else "cannot be reached:"
        error = ClusterUnavailable(f"{server} {what} {lost}")
        if lost.was_heard and not self._request.is_repeatable:
            message = f"{server} did not answer, and may have done it all the same: {lost}"
            raise ClusterUnavailable(message) from lost
        if lost.is_garbled:
            self._failures += 1
            if self._failures >= _MOST_FAILURES:
                raise error
        self._pause(error)

    def pause_after(self, error: ApiError, code: int) -> None:
        """Wait until it is time to ask again, or raise what was answered."""
        if isinstance(error, TooManyRequests):
            # Nothing has been begun, whatever was asked for.
            self._pause(error, error.delay_seconds)
            return
        if code < 500 or not self._request.is_repeatable:
            raise error
        self._failures += 1
        self.was_in_doubt = True
        if code not in _UNAVAILABLE and self._failures >= _MOST_FAILURES:
            raise error
        delay = error.delay_seconds if isinstance(error, _DELAYED) else 0.0
        self._pause(error, delay)

    def _pause(self, error: ApiError, asked_pause: float = 0.0) -> None:
        requests = self._requests
        self._pauses += 1
        pause = requests.jittered(requests.timing.pauses.delay_after(self._pauses))
        if asked_pause:
            # No earlier than asked, and not all at the same moment.
            pause += min(asked_pause, _LONGEST_ASKED_PAUSE)
        until = self._began + requests.patience
        if requests.is_closed or requests.clock.monotonic() + pause > until:
            raise error
        _log.debug("%s %s again: %s", self._request.method, self._request.path, error)
        requests.pause(pause)


_DELAYED: Final = (ClusterUnavailable, RequestTimeout)


def _why_no_answer(found: Any, request: Request) -> str:
    if not isinstance(found, dict):
        return "no object"
    if request.must_hold not in found:
        return f"an object that has no {request.must_hold}"
    metadata, wanted = found.get("metadata"), request.asked.name
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if wanted and name and name != wanted:
        return f"another object: {str(name)[:100]}, not {wanted}"
    return ""


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return max(0.0, float(headers.get("retry-after") or 0))
    except ValueError:
        return 0.0
