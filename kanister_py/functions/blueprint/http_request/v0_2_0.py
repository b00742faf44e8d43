"""HTTPRequest v0.2.0: like v0.1.0, but requests that may have taken effect are not repeated."""

from __future__ import annotations

from typing import ClassVar, Final

from kanister_py.core.errors import TransientError, UsageError
from kanister_py.functions.blueprint.http_request.request import Request
from kanister_py.functions.blueprint.http_request.v0_1_0 import (
    HTTPRequest,
    RequestFailed,
    ServiceNotReady,
)

_REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"})
_NOTHING_DONE: Final = frozenset({429, 503})
_KEY: Final = "idempotency-key"


class HTTPRequestV020(HTTPRequest):
    """Sends an HTTP request and returns parts of the response as outputs.

    Like v0.1.0, except that no request is carried out twice. A POST or PATCH whose connection
    was lost after sending had started, or that received 408, 425, 500, 502 or 504, may have
    been carried out. It is repeated neither by `retries` nor by a `retry` of the phase; the
    phase fails with the reason `RequestInDoubt`. With a header `Idempotency-Key`, the server
    prevents duplicates and the request is repeated. If no connection could be established, or
    the status is 429 or 503, the request was not carried out and is repeated.
    """

    version: ClassVar = "v0.2.0"

    def _check_repeatable(self, request: Request, error: TransientError) -> None:
        if request.method in _REPEATABLE or any(name.lower() == _KEY for name in request.headers):
            return
        if isinstance(error, RequestFailed) and not error.is_begun:
            return
        if isinstance(error, ServiceNotReady) and error.status in _NOTHING_DONE:
            return
        raise UsageError(
            f"{error.message}; the {request.method} may have been carried out, so it is not sent "
            "again: check whether it was, or send a header Idempotency-Key with it",
            reason="RequestInDoubt",
        ) from error
