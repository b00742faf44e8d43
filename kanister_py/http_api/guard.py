"""Access to the endpoint: the right that the cluster itself asks for decides, route by route."""

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
    see,
)
from kanister_py.http_api.live.session import (
    SEAL_IN_SCOPE,
    SIGN_IN,
    Seal,
    token_in,
    wants_page,
    way_in,
)
from kanister_py.http_api.phase_lines import PATH as LINES_PATH
from kanister_py.http_api.problems import problem_answer
from kanister_py.ports.overview import ACTION_VERBS, SCHEDULE_VERBS

_LOG: Final = logging.getLogger(__name__)

_OPEN: Final = ("/healthz", "/readyz", *OPEN)
_ACTION_SETS: Final = ("cr.kanister.io", "actionsets")
_SCHEDULES: Final = ("kanister-py.io", "schedules")
_RIGHTS: Final[Mapping[str, tuple[str, str, str]]] = {
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
"""Routes that show or touch objects, with the right on them that each takes."""

_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="kanister-py"'}

_WHO: Final = problem_answer(
    401, "Unauthorized", "Say who you are: Authorization: Bearer TOKEN", None, _CHALLENGE
)
_STRANGER: Final = problem_answer(
    401, "Unauthorized", "The cluster does not know this token", None, _CHALLENGE
)
_BUSY_MESSAGE: Final = "The cluster cannot say who you are at the moment"
_BUSY: Final = problem_answer(503, "AccessUnknown", _BUSY_MESSAGE)

_NOWHERE: Final = problem_answer(404, "NotFound", "Nothing is at this address")
_MISDIRECTED: Final = problem_answer(
    421, "Misdirected", "This endpoint is for this machine alone; ask localhost, or its address"
)

_TOO_MANY: Final = problem_answer(
    429,
    "TooManyTokens",
    "Too many tokens of yours are not known; wait a minute",
    None,
    {"retry-after": "60"},
)
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_MOST_CHARACTERS: Final = 16_384
_MOST_UNKNOWN: Final = 20
_WINDOW_SECONDS: Final = 60.0
_MOST_CLIENTS: Final = 10_000

Review = Callable[[str, Mapping[str, Any]], Access]


def asked_of(route: str, parts: Mapping[str, str], path: str, query: bytes = b"") -> dict[str, Any]:
    """Give the right that a route takes: on the objects that it shows, else on its path."""
    right = _RIGHTS.get(route)
    if right is None:
        return {"nonResourceAttributes": {"path": path, "verb": "get"}}
    group, resource, verb = right
    asked = {"group": group, "resource": resource, "verb": verb}
    if "namespace" in parts:
        asked["namespace"] = parts["namespace"]
        if verb != "create":
            asked["name"] = parts["name"]
    else:
        found = dict(parse_qsl(query.decode("latin-1"))).get("namespace", "")
        asked |= {"namespace": found} if found else {}
    return {"resourceAttributes": asked}


class UnknownTokens:
    """Count of the tokens that the cluster did not know, by client and minute.

    Each costs the API server a request, and a client without any right can send them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._clients: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def is_exceeded(self, client: str) -> bool:
        with self._lock:
            began, count = self._clients.get(client, (0.0, 0))
            return count >= _MOST_UNKNOWN and self._clock() - began < _WINDOW_SECONDS

    def note(self, client: str) -> None:
        """Count one more of a client."""
        now = self._clock()
        with self._lock:
            began, count = self._clients.pop(client, (now, 0))
            if now - began >= _WINDOW_SECONDS:
                began, count = now, 0
            self._clients[client] = (began, count + 1)
            while len(self._clients) > _MOST_CLIENTS:
                self._clients.popitem(last=False)


def _client_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


class Guard:
    """Middleware that lets a request through if the owner of its token has the right to it.

    The app's own routes say what a path means, so that nothing is asked for one thing
    and answered with another; what no route names is not there for any user. `seal` is
    that of the tokens in cookies.
    """

    def __init__(
        self,
        app: Starlette,
        review: Review,
        seal: Seal | None = None,
        unknown: UnknownTokens | None = None,
    ) -> None:
        self._app = app
        self._review = review
        self._seal = Seal() if seal is None else seal
        self._unknown = UnknownTokens() if unknown is None else unknown
        self._signs_in = any(getattr(each, "path", "") == SIGN_IN for each in app.routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope = {**scope, SEAL_IN_SCOPE: self._seal}
        found = self._found(scope)
        if found is not None and found[0] in _OPEN:
            if found[0] == SIGN_IN and scope["method"] == "POST":
                client = _client_of(scope)
                if self._unknown.is_exceeded(client):
                    await send_answer(_TOO_MANY, send, has_body=True)
                    return
                send = self._counting(send, client)
            await self._app(scope, receive, send)
            return
        refused = await run_in_threadpool(self._refusal, scope, found)
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await send_answer(refused, send, has_body=scope["method"] != "HEAD")

    def _counting(self, send: Send, client: str) -> Send:
        """Wrap `send` so that a refused token counts."""

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                self._unknown.note(client)
            await send(message)

        return send_counted

    def _found(self, scope: Scope) -> tuple[str, Mapping[str, str]] | None:
        for route in self._app.routes:
            match, inner = route.matches(scope)
            if match is not Match.NONE and isinstance(route, Route):
                return route.path, inner["path_params"]
        return None

    def _refusal(self, scope: Scope, found: tuple[str, Mapping[str, str]] | None) -> Answer | None:
        token = token_in(scope)
        path, query = str(scope["path"]), scope.get("query_string", b"")
        has_page = self._signs_in and wants_page(scope)
        if not token:
            return see(way_in(scope)) if has_page else _WHO
        if found is None:
            return _NOWHERE
        client = _client_of(scope)
        if self._unknown.is_exceeded(client):
            return _TOO_MANY
        if len(token) > _MOST_CHARACTERS or not _TOKEN.fullmatch(token):
            return see(way_in(scope), token="", scope=scope) if has_page else _STRANGER
        try:
            access = self._review(token, asked_of(*found, path, query))
        except KanisterError as error:
            _LOG.warning("A token cannot be checked: %s", error.message)
            return message_page(503, _BUSY_MESSAGE, scope) if has_page else _BUSY
        if access is Access.UNKNOWN:
            self._unknown.note(client)
            # A token that is known no more is asked for anew.
            return see(way_in(scope), token="", scope=scope) if has_page else _STRANGER
        if access is Access.FORBIDDEN:
            if has_page:
                wanted = f"see {path}" if scope["method"] == "GET" else "do this"
                return message_page(403, f"You may not {wanted} with this token", scope)
            return problem_answer(403, "Forbidden", f"You may not get {path}")
        return None


class OwnHosts:
    """Filter of requests that name this machine, where nobody else can reach it.

    A page from elsewhere can point a name of its own at the loopback address and have a
    browser ask; the browser then names that host.
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
