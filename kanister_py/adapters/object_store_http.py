"""Requests to object stores: bounded tries, timeouts, and errors in our words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kanister_py.adapters.object_store_errors import refusal_of, unreachable
from kanister_py.core.kube.locations import Location

if TYPE_CHECKING:
    import urllib3

TRIES: Final = 5
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 120.0
# What comes in one reading is less, and each costs a turn; of more, the processor's cache has
# lost the beginning before its checksum is worked out and it is written.
_PIECE_BYTES: Final = 256 * 1024

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
        self._pool: urllib3.PoolManager = urllib3.PoolManager(
            maxsize=connections,
            retries=urllib3.Retry(
                total=TRIES,
                backoff_factor=0.2,
                backoff_max=10,
                status_forcelist=(408, 429, 500, 502, 503, 504),
                allowed_methods=None,
                raise_on_status=False,
                redirect=0,
                raise_on_redirect=False,
            ),
            timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
            **insecure,
        )

    def send(
        self, method: str, url: str, key: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        """Send a request; an answer above 399 is raised."""
        answer = self._asked(method, url, key, headers, body=body)
        return Answer(answer.status, _named(answer), answer.data)

    def open(
        self, url: str, key: str, headers: Mapping[str, str]
    ) -> tuple[Mapping[str, str], Iterator[bytes]]:
        """Ask for an object: its headers are there at once, its bytes come as they are read."""
        unread = {"preload_content": False, "decode_content": False}
        answer = self._asked("GET", url, key, headers, **unread)
        return _named(answer), self._pieces(answer)

    def _asked(
        self, method: str, url: str, key: str, headers: Mapping[str, str], **how: Any
    ) -> urllib3.BaseHTTPResponse:
        import urllib3

        try:
            answer = self._pool.request(method, url, headers=headers, **how)
            refusal = "" if answer.status < 400 else answer.data.decode("utf-8", "replace")
        except urllib3.exceptions.HTTPError as error:
            raise unreachable(self._location, str(error)) from error
        if answer.status >= 400:
            raise refusal_of("", self._location, f"status code: {answer.status}: {refusal}", key)
        return answer

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
