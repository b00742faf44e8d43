"""Problem details of HTTP responses (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from kanister_py.core.errors import (
    FunctionNotRegistered,
    FunctionVersionNotFound,
    FunctionVersionRemoved,
    InvalidVersion,
    KanisterError,
)
from kanister_py.http_api.answers import Answer, answer_of, json_bytes

PROBLEM = "application/problem+json"
_TYPES = "https://kanister-py.io/problems/"

# HTTP status of each error. Other errors are defects of the server.
STATUSES: Mapping[type[KanisterError], HTTPStatus] = {
    InvalidVersion: HTTPStatus.BAD_REQUEST,
    FunctionNotRegistered: HTTPStatus.NOT_FOUND,
    FunctionVersionNotFound: HTTPStatus.NOT_FOUND,
    FunctionVersionRemoved: HTTPStatus.GONE,
}


def problem_answer(
    status: int,
    reason: str,
    detail: str,
    facts: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Build a response with a problem, its reason and additional fields."""
    document = {
        "type": _TYPES + reason,
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
        "reason": reason,
        **(facts or {}),
    }
    return answer_of(status, PROBLEM, json_bytes(document), headers)


def problem_of(
    error: KanisterError,
    facts: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Build the response for an error."""
    status = STATUSES.get(type(error), HTTPStatus.INTERNAL_SERVER_ERROR)
    return problem_answer(status, error.reason, error.message, facts, headers)
