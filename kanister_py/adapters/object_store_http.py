"""Requests to object stores, with limited retries and timeouts."""

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
# Smaller chunks cost more calls; larger ones no longer fit into the processor's cache until their
# checksum is computed and they are written.
_PIECE_BYTES: Final = 256 * 1024

_REPEATED: Final = frozenset((408, 429, 500, 502, 503, 504))
_MAX_DOCUMENT: Final = 16 * 1024 * 1024

Now: TypeAlias = Callable[[], datetime]
"""Returns the current time, for signatures."""


class StoreResponse(NamedTuple):
    """Response of a store. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class StoreHttp:
    """Connection pool for one store."""

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
    ) -> StoreResponse:
        """Send a request. A status above 399 raises an error."""
        answer = self._request(method, url, key, headers, body)
        data = self._read(answer, _MAX_DOCUMENT + 1)
        if len(data) > _MAX_DOCUMENT:
            why = f"the response has more than {_MAX_DOCUMENT >> 20} MiB"
            raise refusal_of("StoreRefused", self._location, why, key)
        return StoreResponse(answer.status, _named(answer), data)

    def open(
        self, url: str, key: str, headers: Mapping[str, str]
    ) -> tuple[Mapping[str, str], Iterator[bytes]]:
        """Request an object; returns its headers and an iterator over its content."""
        answer = self._request("GET", url, key, headers, b"")
        return _named(answer), self._pieces(answer)

    def _request(
        self, method: str, url: str, key: str, headers: Mapping[str, str], body: bytes
    ) -> urllib3.BaseHTTPResponse:
        """Send a request until its status is final. urllib3 retries it if the connection fails.

        Retries after a status are made here, because urllib3 would read the whole body of a
        response that it discards.
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
        """Read at most `limit` bytes of a response, and discard the rest."""
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
            # A connection with unread data cannot be reused.
            answer.close()


def _named(answer: urllib3.BaseHTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}
