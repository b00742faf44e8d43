"""Error responses of an API server, and the errors that they are converted to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    ClusterUnavailable,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NoMatch,
    NotFound,
    RequestTimeout,
    RequestTooLarge,
    TooManyRequests,
    TransientApiError,
    Unauthorized,
    UnsupportedMediaType,
)
from kanister_py.core.kube.managed_fields import ApplyConflict

_BY_CODE: Final[Mapping[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Expired,
    413: RequestTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
    502: ClusterUnavailable,
    503: ClusterUnavailable,
    504: RequestTimeout,
}
_UNKNOWN_RESOURCE: Final = "the server could not find the requested resource"
_MANAGER: Final = re.compile(r'conflict with "([^"]*)"')
# The API server reports the size limit of etcd as an internal error.
_STORE_LIMIT: Final = "etcdserver: request is too large"


class NotConnected(Exception):
    """No connection was established, so the server has not received the request."""


class Subject(NamedTuple):
    """Subject of a request, named in error messages."""

    resource: str = ""
    name: str = ""
    subresource: str = ""


def status_in(body: bytes) -> Mapping[str, Any]:
    """Parse a response body as a `Status`. Returns an empty mapping if it is not one."""
    try:
        status = json.loads(body)
    except ValueError:
        return {}
    return status if isinstance(status, dict) and status.get("kind") == "Status" else {}


def error_of(
    code: int, status: Mapping[str, Any], subject: Subject, delay_seconds: float = 0.0
) -> ApiError:
    """Return the error for a response, with the message of the cluster."""
    details = status.get("details") or {}
    reason = status.get("reason") or ""
    message = status.get("message") or f"the server answered {code}"
    named = {"resource": subject.resource, "name": str(details.get("name") or subject.name)}
    causes = _causes_of(details)
    if code == 404 and _is_unknown_resource(status, subject):
        message = f'no matches for resource "{subject.resource}": {_UNKNOWN_RESOURCE}'
        return NoMatch(message, resource=subject.resource)
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists(message, causes=causes, **named)
    conflicts = [
        (match.group(1) if (match := _MANAGER.search(cause.message)) else "", cause.field)
        for cause in causes
        if cause.reason == "FieldManagerConflict"
    ]
    if code == 409 and conflicts:
        return ApplyConflict(conflicts, **named)
    if _STORE_LIMIT in message:
        return RequestTooLarge(message, causes=causes, **named)
    kind = _BY_CODE.get(code) or (InternalError if code >= 500 else BadRequest)
    if issubclass(kind, TransientApiError):
        delay = delay_seconds or float(details.get("retryAfterSeconds") or 0)
        return kind(message, causes=causes, delay_seconds=delay, **named)
    return kind(message, causes=causes, **named)


def _causes_of(details: Mapping[str, Any]) -> list[Cause]:
    return [
        Cause(
            str(cause.get("field") or ""),
            str(cause.get("message") or ""),
            str(cause.get("reason") or "FieldValueInvalid"),
        )
        for cause in details.get("causes") or ()
        if isinstance(cause, Mapping)
    ]


def _is_unknown_resource(status: Mapping[str, Any], subject: Subject) -> bool:
    """Return True if the cluster does not serve the kind, as opposed to a missing object."""
    if subject.subresource:
        return False
    return not status or status.get("message") == _UNKNOWN_RESOURCE


def reason_of(error: BaseException) -> str:
    """Return the innermost reason of an error in one line, without addresses in memory."""
    inner: BaseException = error
    while True:
        nested = [arg for arg in inner.args if isinstance(arg, BaseException)]
        deeper = nested[0] if nested else inner.__cause__
        if deeper is None:
            break
        inner = deeper
    text = " ".join(str(inner).split())
    return text.rpartition(">: ")[2] or type(inner).__name__
