"""Problems over HTTP, as RFC 9457 has them."""

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

# The one table of what an error means in HTTP. Whatever is not in it is our fault.
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
    """Say what is wrong, with its reason for machines and its facts as fields."""
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
    """Say in HTTP what an error says."""
    status = STATUSES.get(type(error), HTTPStatus.INTERNAL_SERVER_ERROR)
    return problem_answer(status, error.reason, error.message, facts, headers)
