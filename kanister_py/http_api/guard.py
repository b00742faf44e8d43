"""Authorization of requests to the endpoint, by the permissions of the user in the cluster."""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kanister_py.core.errors import KanisterError
from kanister_py.executor.review_access import Access
from kanister_py.http_api.answers import Answer, send_answer
from kanister_py.http_api.live.routes import (
    ACTS,
    EVENTS,
    OPEN,
    RUN,
    RUN_NOW,
    RUNS,
    RUNS_EVENTS,
    RUNS_NOW,
    SCHEDULE,
    SCHEDULE_ACTS,
    SCHEDULES,
    message_page,
    redirect,
)
from kanister_py.http_api.live.session import (
    SEAL_IN_SCOPE,
    SIGN_IN,
    Seal,
    accepts_html,
    sign_in_url,
    token_in,
)
from kanister_py.http_api.phase_lines import PATH as LINES_PATH
from kanister_py.http_api.problems import problem_answer
from kanister_py.ports.overview import ACTION_VERBS, SCHEDULE_VERBS

_LOG: Final = logging.getLogger(__name__)

_OPEN: Final = ("/healthz", "/readyz", *OPEN)
_ACTION_SETS: Final = ("cr.kanister.io", "actionsets")
_SCHEDULES: Final = ("kanister-py.io", "schedules")
_PERMISSIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    **dict.fromkeys((LINES_PATH, RUN, RUN_NOW, EVENTS), (*_ACTION_SETS, "get")),
    **dict.fromkeys((RUNS, RUNS_NOW, RUNS_EVENTS), (*_ACTION_SETS, "list")),
    **{path: (*_ACTION_SETS, ACTION_VERBS[verb]) for verb, path in ACTS.items()},
    SCHEDULES: (*_SCHEDULES, "list"),
    SCHEDULE: (*_SCHEDULES, "get"),
    **{
        path: (*_SCHEDULES, right) if (right := SCHEDULE_VERBS[verb]) else (*_ACTION_SETS, "create")
        for verb, path in SCHEDULE_ACTS.items()
    },
}
"""Permission on objects that each route requires: group, resource and verb."""

_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="kanister-py"'}

_TOKEN_REQUIRED: Final = problem_answer(
    401, "Unauthorized", "Send a token: Authorization: Bearer TOKEN", None, _CHALLENGE
)
_TOKEN_REJECTED: Final = problem_answer(
    401, "Unauthorized", "The cluster does not accept this token", None, _CHALLENGE
)
_UNAVAILABLE_MESSAGE: Final = "The cluster cannot authenticate users at the moment"
_UNAVAILABLE: Final = problem_answer(503, "AccessUnknown", _UNAVAILABLE_MESSAGE)

_NOT_FOUND: Final = problem_answer(404, "NotFound", "This path does not exist")
_MISDIRECTED: Final = problem_answer(
    421, "Misdirected", "This endpoint only serves this machine; use localhost or its IP address"
)

_TOO_MANY_TOKENS: Final = problem_answer(
    429,
    "TooManyTokens",
    "Too many of your tokens were rejected; wait a minute",
    None,
    {"retry-after": "60"},
)
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_MOST_CHARACTERS: Final = 16_384
_MOST_REJECTED: Final = 20
_WINDOW_SECONDS: Final = 60.0
_MOST_CLIENTS: Final = 10_000

Review = Callable[[str, Mapping[str, Any]], Access]


def review_attributes(
    route: str, parts: Mapping[str, str], path: str, query: bytes = b""
) -> dict[str, Any]:
    """Build the attributes of the SubjectAccessReview for a request.

    They name the object that the route serves or, for other routes, the path.
    """
    right = _PERMISSIONS.get(route)
    if right is None:
        return {"nonResourceAttributes": {"path": path, "verb": "get"}}
    group, resource, verb = right
    attributes = {"group": group, "resource": resource, "verb": verb}
    if "namespace" in parts:
        attributes["namespace"] = parts["namespace"]
        if verb != "create":
            attributes["name"] = parts["name"]
    else:
        namespace = dict(parse_qsl(query.decode("latin-1"))).get("namespace", "")
        attributes |= {"namespace": namespace} if namespace else {}
    return {"resourceAttributes": attributes}


class RejectedTokens:
    """Limit of rejected tokens, by client and minute.

    Every token costs the API server a request, and clients without any permission can send them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._clients: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def is_exceeded(self, client: str) -> bool:
        with self._lock:
            window_start, count = self._clients.get(client, (0.0, 0))
            return count >= _MOST_REJECTED and self._clock() - window_start < _WINDOW_SECONDS

    def count(self, client: str) -> None:
        """Count a rejected token of a client."""
        now = self._clock()
        with self._lock:
            window_start, count = self._clients.pop(client, (now, 0))
            if now - window_start >= _WINDOW_SECONDS:
                window_start, count = now, 0
            self._clients[client] = (window_start, count + 1)
            while len(self._clients) > _MOST_CLIENTS:
                self._clients.popitem(last=False)


def _client_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


class Guard:
    """Middleware that checks whether the owner of the token may send the request.

    It matches paths with the routes of the app itself, so that the checked and the served resource
    cannot differ. Paths without a route do not exist for any user. `seal` decrypts the tokens in
    cookies.
    """

    def __init__(
        self,
        app: Starlette,
        review: Review,
        seal: Seal | None = None,
        rejected_tokens: RejectedTokens | None = None,
    ) -> None:
        self._app = app
        self._review = review
        self._seal = Seal() if seal is None else seal
        self._rejected = RejectedTokens() if rejected_tokens is None else rejected_tokens
        self._signs_in = any(getattr(route, "path", "") == SIGN_IN for route in app.routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope = {**scope, SEAL_IN_SCOPE: self._seal}
        matched = self._match(scope)
        if matched is not None and matched[0] in _OPEN:
            if matched[0] == SIGN_IN and scope["method"] == "POST":
                client = _client_of(scope)
                if self._rejected.is_exceeded(client):
                    await send_answer(_TOO_MANY_TOKENS, send, has_body=True)
                    return
                send = self._counting(send, client)
            await self._app(scope, receive, send)
            return
        refused = await run_in_threadpool(self._refusal, scope, matched)
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await send_answer(refused, send, has_body=scope["method"] != "HEAD")

    def _counting(self, send: Send, client: str) -> Send:
        """Wrap `send` to count rejected tokens."""

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                self._rejected.count(client)
            await send(message)

        return send_counted

    def _match(self, scope: Scope) -> tuple[str, Mapping[str, str]] | None:
        for route in self._app.routes:
            match, inner = route.matches(scope)
            if match is not Match.NONE and isinstance(route, Route):
                return route.path, inner["path_params"]
        return None

    def _refusal(
        self, scope: Scope, matched: tuple[str, Mapping[str, str]] | None
    ) -> Answer | None:
        token = token_in(scope)
        path, query = str(scope["path"]), scope.get("query_string", b"")
        has_page = self._signs_in and accepts_html(scope)
        if not token:
            return redirect(sign_in_url(scope)) if has_page else _TOKEN_REQUIRED
        if matched is None:
            return _NOT_FOUND
        client = _client_of(scope)
        if self._rejected.is_exceeded(client):
            return _TOO_MANY_TOKENS
        if len(token) > _MOST_CHARACTERS or not _TOKEN.fullmatch(token):
            return (
                redirect(sign_in_url(scope), token="", scope=scope) if has_page else _TOKEN_REJECTED
            )
        try:
            access = self._review(token, review_attributes(*matched, path, query))
        except KanisterError as error:
            _LOG.warning("A token cannot be checked: %s", error.message)
            return message_page(503, _UNAVAILABLE_MESSAGE, scope) if has_page else _UNAVAILABLE
        if access is Access.UNKNOWN:
            self._rejected.count(client)
            # The token in the cookie has expired: let the user sign in again.
            return (
                redirect(sign_in_url(scope), token="", scope=scope) if has_page else _TOKEN_REJECTED
            )
        if access is Access.FORBIDDEN:
            if has_page:
                action = f"see {path}" if scope["method"] == "GET" else "do this"
                return message_page(403, f"This token does not allow you to {action}", scope)
            return problem_answer(403, "Forbidden", f"You may not get {path}")
        return None


class LocalHostsOnly:
    """Middleware for endpoints on loopback that refuses requests for other hosts.

    Protects against DNS rebinding: a foreign page can resolve its own name to the loopback
    address, but the browser then sends this name as Host.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) == 1 and _is_this_machine(hosts[0].decode("latin-1")):
            await self._app(scope, receive, send)
        else:
            await send_answer(_MISDIRECTED, send, has_body=scope["method"] != "HEAD")


def _is_this_machine(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.removeprefix("[").removesuffix("]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
