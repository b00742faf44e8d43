"""Requests to object stores: bounded tries, timeouts, and errors in our words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kanister_py.adapters.object_store_errors import MAX_ANSWER, refusal_of, unreachable
from kanister_py.core.kube.locations import Location

if TYPE_CHECKING:
    import urllib3

TRIES: Final = 5
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 120.0
# What comes in one reading is less, and each costs a turn; of more, the processor's cache has
# lost the beginning before its checksum is worked out and it is written.
_PIECE_BYTES: Final = 256 * 1024

_REPEATED: Final = frozenset((408, 429, 500, 502, 503, 504))
_MAX_DOCUMENT: Final = 16 * 1024 * 1024

Now: TypeAlias = Callable[[], datetime]
"""Says what time it is, which signatures hold."""


class Answer(NamedTuple):
    """What a store answers; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class StoreHttp:
    """A pool of connections to one store."""

    def __init__(self, location: Location, connections: int) -> None:
        import urllib3

        self._location = location
        insecure: dict[str, Any] = {}
        if location.skip_tls_verify:
            insecure = {"cert_reqs": "CERT_NONE"}
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._retries = urllib3.Retry(
            total=TRIES,
            backoff_factor=0.2,
            backoff_max=10,
            allowed_methods=None,
            redirect=0,
            raise_on_redirect=False,
        )
        self._pool: urllib3.PoolManager = urllib3.PoolManager(
            maxsize=connections,
            timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
            **insecure,
        )

    def send(
        self, method: str, url: str, key: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        """Send a request; a status above 399 is raised as an error."""
        answer = self._request(method, url, key, headers, body)
        data = self._read(answer, _MAX_DOCUMENT + 1)
        if len(data) > _MAX_DOCUMENT:
            why = f"answers more than {_MAX_DOCUMENT >> 20} MiB"
            raise refusal_of("StoreRefused", self._location, why, key)
        return Answer(answer.status, _named(answer), data)

    def open(
        self, url: str, key: str, headers: Mapping[str, str]
    ) -> tuple[Mapping[str, str], Iterator[bytes]]:
        """Request an object: return its headers, and its bytes as they are read."""
        answer = self._request("GET", url, key, headers, b"")
        return _named(answer), self._pieces(answer)

    def _request(
        self, method: str, url: str, key: str, headers: Mapping[str, str], body: bytes
    ) -> urllib3.BaseHTTPResponse:
        """Send a request until its status is final; urllib3 repeats it if the connection fails.

        Repeating it for a status happens here: urllib3 would read the whole body of an answer
        that it passes over.
        """
        import urllib3

        retries = self._retries
        while True:
            try:
                answer = self._pool.request(
                    method,
                    url,
                    headers=headers,
                    body=body,
                    retries=retries,
                    preload_content=False,
                    decode_content=False,
                )
            except urllib3.exceptions.HTTPError as error:
                raise unreachable(self._location, str(error)) from error
            if answer.status < 400:
                return answer
            refusal = self._read(answer, MAX_ANSWER).decode("utf-8", "replace")
            if answer.status not in _REPEATED or not retries.total:
                status = f"status code: {answer.status}: {refusal}"
                raise refusal_of("", self._location, status, key)
            retries = retries.increment(method, url, response=answer)
            retries.sleep(answer)

    def _read(self, answer: urllib3.BaseHTTPResponse, limit: int) -> bytes:
        """Read at most `limit` bytes of an answer; the rest of a longer one is given up."""
        import urllib3

        try:
            data = answer.read(limit)
        except urllib3.exceptions.HTTPError as error:
            raise unreachable(self._location, str(error)) from error
        if len(data) == limit:
            answer.close()
        else:
            answer.release_conn()
        return data

    def _pieces(self, answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        import urllib3

        try:
            while piece := answer.read(_PIECE_BYTES):
                yield piece
        except urllib3.exceptions.HTTPError as error:
            raise unreachable(self._location, str(error)) from error
        finally:
            # What was not read to its end cannot be asked anything else.
            answer.close()


def _named(answer: urllib3.BaseHTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}
