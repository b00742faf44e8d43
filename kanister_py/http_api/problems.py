"""What is said when there is nothing to show? Problems as RFC 9457 has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def not_allowed(allowed: Sequence[str]) -> Answer:
    allow = ", ".join(allowed)
    return problem_answer(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        f"There is only reading here: {allow}",
        headers={"allow": allow},
    )


def not_acceptable(offered: Sequence[str]) -> Answer:
    return problem_answer(
        HTTPStatus.NOT_ACCEPTABLE,
        "NotAcceptable",
        f"This is given as {' or '.join(offered)}; change the Accept header, or leave it out",
        {"offered": list(offered)},
        {"vary": "Accept"},
    )


def nowhere(known: Sequence[str]) -> Answer:
    return problem_answer(
        HTTPStatus.NOT_FOUND,
        "NotFound",
        f"There is nothing here; start at {known[0]}",
        {"known": list(known)},
    )


def too_long(most_characters: int) -> Answer:
    return problem_answer(
        HTTPStatus.REQUEST_URI_TOO_LONG,
        "URITooLong",
        f"No address here is longer than {most_characters} characters",
    )


def too_many_headers(most_bytes: int) -> Answer:
    return problem_answer(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "RequestHeaderFieldsTooLarge",
        f"The headers of a request may have {most_bytes} bytes in all",
    )
