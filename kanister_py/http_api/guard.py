"""May whoever asks see this? The same right as for the cluster itself decides."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from kanister_py.core.errors import KanisterError
from kanister_py.executor.review_access import Access
from kanister_py.http_api.answers import Answer
from kanister_py.http_api.problems import problem_answer

_LOG: Final = logging.getLogger(__name__)

_OPEN: Final = ("/healthz", "/readyz")
_LINES: Final = re.compile(r"/v1/namespaces/([^/]+)/actionsets/([^/]+)/lines")
_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="kanister-py"'}

_WHO: Final = problem_answer(
    401, "Unauthorized", "Say who you are: Authorization: Bearer TOKEN", None, _CHALLENGE
)
_STRANGER: Final = problem_answer(
    401, "Unauthorized", "The cluster does not know this token", None, _CHALLENGE
)
_BUSY: Final = problem_answer(
    503, "AccessUnknown", "The cluster cannot say who you are at the moment"
)

Review = Callable[[str, Mapping[str, Any]], Access]


def asked_of(path: str) -> dict[str, Any]:
    """Say which right a path takes: for the lines of an ActionSet to read it, else its own."""
    found = _LINES.fullmatch(path)
    if found is None:
        return {"nonResourceAttributes": {"path": path, "verb": "get"}}
    return {
        "resourceAttributes": {
            "group": "cr.kanister.io",
            "resource": "actionsets",
            "verb": "get",
            "namespace": found.group(1),
            "name": found.group(2),
        }
    }


class Guard:
    """Lets nobody through to an app who may not see what they ask for."""

    def __init__(self, app: ASGIApp, review: Review) -> None:
        self._app = app
        self._review = review

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _OPEN:
            await self._app(scope, receive, send)
            return
        refused = await run_in_threadpool(self._refusal, scope)
        if refused is None:
            await self._app(scope, receive, send)
            return
        head = {
            "type": "http.response.start",
            "status": refused.status,
            "headers": list(refused.headers),
        }
        await send(head)
        has_body = scope["method"] != "HEAD"
        await send({"type": "http.response.body", "body": refused.body if has_body else b""})

    def _refusal(self, scope: Scope) -> Answer | None:
        token = _token_in(scope)
        if not token:
            return _WHO
        path = str(scope["path"])
        try:
            access = self._review(token, asked_of(path))
        except KanisterError as error:
            _LOG.warning("A token cannot be checked: %s", error.message)
            return _BUSY
        if access is Access.UNKNOWN:
            return _STRANGER
        if access is Access.FORBIDDEN:
            return problem_answer(403, "Forbidden", f"You may not get {path}")
        return None


def _token_in(scope: Scope) -> str:
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return ""
    kind, _, token = values[0].decode("latin-1").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
