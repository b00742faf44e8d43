"""Routes of the pages of runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from time import perf_counter
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from kanister_py.core.actionsets.overview import timeline_of
from kanister_py.core.errors import (
    Conflict,
    Forbidden,
    KanisterError,
    NotFound,
    TransientError,
    UsageError,
)
from kanister_py.executor.review_access import Access
from kanister_py.http_api.answers import (
    Answer,
    Representation,
    answer_of,
    encoded_headers,
    send_answer,
)
from kanister_py.http_api.live import session
from kanister_py.http_api.live.stream import EventStream
from kanister_py.http_api.live.views import (
    asset,
    choices_of,
    page,
    page_headers,
    run_content,
    runs_content,
    schedule_content,
    schedules_content,
)
from kanister_py.http_api.metrics import Metrics
from kanister_py.ports.overview import (
    ACTION_VERBS,
    SCHEDULE_VERBS,
    Overview,
)

_LOG: Final = logging.getLogger(__name__)

RUNS: Final = "/runs"
RUNS_NOW: Final = "/runs-now"
RUNS_EVENTS: Final = "/runs-events"
RUN: Final = "/runs/{namespace}/{name}"
RUN_NOW: Final = f"{RUN}/now"
EVENTS: Final = f"{RUN}/events"
ACTS: Final = {verb: f"{RUN}/{verb}" for verb in ACTION_VERBS}
SCHEDULES: Final = "/schedules"
SCHEDULE: Final = "/schedules/{namespace}/{name}"
SCHEDULE_ACTS: Final = {verb: f"{SCHEDULE}/{verb}" for verb in SCHEDULE_VERBS}
SIGN_OUT: Final = "/signout"
ASSETS: Final = {"/page.css": "page.css", "/live.css": "live.css", "/live.js": "live.js"}
OPEN: Final = (session.SIGN_IN, SIGN_OUT, *ASSETS)

_HTML: Final = "text/html; charset=utf-8"
_LAST_LINES: Final = 500
_MOST_CACHED: Final = 100
_LONGEST_FORM: Final = 16_384

_STATUSES: Final = ((NotFound, 404), (Forbidden, 403), (TransientError, 503), (UsageError, 409))

Review = Callable[[str, Mapping[str, object]], Access]


class PageRequest(NamedTuple):
    """Parts of a request that pages use."""

    scope: Scope
    parts: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]


class Pages:
    """Pages of runs and Schedules. Without `review`, users need not sign in."""

    def __init__(
        self,
        overview: Overview,
        now: Callable[[], datetime],
        review: Review | None,
    ) -> None:
        self._overview = overview
        self._now = now
        self._review = review
        self._lock = Lock()
        self._cached_version = -1
        self._cached: dict[tuple[tuple[str, str], ...], Representation] = {}

    # The list

    def runs(self, request: PageRequest) -> Answer:
        runs = self._overview.runs()
        listed = runs_content(runs, request.query, self._now())
        choices = choices_of(runs, request.query.get("namespace", ""))
        return html("runs.html.j2", {**listed, "choices": choices}, request.scope)

    def runs_now(self, request: PageRequest) -> Answer:
        runs = self._overview.runs()
        cache_key = (*sorted(request.query.items()), ("", runs.trouble))
        with self._lock:
            if self._cached_version != runs.version or len(self._cached) >= _MOST_CACHED:
                self._cached_version, self._cached = runs.version, {}
            cached = self._cached.get(cache_key)
        if cached is None:
            # Cached for all users with the same filters until a run changes.
            body = page("rows.html.j2", **runs_content(runs, request.query, self._now()))
            cached = Representation(_HTML, body, {"cache-control": "private, no-cache"})
            with self._lock:
                if self._cached_version == runs.version:
                    self._cached[cache_key] = cached
        return cached.answer(session.header_of(request.scope, b"if-none-match").encode() or None)

    # One run

    def run(self, request: PageRequest) -> Answer:
        return self._run_page(request, "run.html.j2")

    def run_now(self, request: PageRequest) -> Answer:
        return self._run_page(request, "run_now.html.j2")

    def _run_page(self, request: PageRequest, template: str) -> Answer:
        namespace, name = request.parts["namespace"], request.parts["name"]
        actionset = self._overview.read(namespace, name)
        if actionset is None:
            why = f"ActionSet {name} does not exist in namespace {namespace}"
            return message_page(404, why, request.scope)
        now = self._now()
        content = run_content(timeline_of(actionset, now), now, session.form_key(request.scope))
        if template == "run.html.j2":
            lines: Sequence[Mapping[str, object]] = ()
            content["trouble"] = ""
            try:
                lines = self._overview.lines(namespace, name, 0)
            except KanisterError as error:
                content["trouble"] = error.message
            content["lines"] = lines[-_LAST_LINES:]
            content["left_out"] = max(0, len(lines) - _LAST_LINES)
        return html(template, content, request.scope)

    def act(self, verb: str) -> Callable[[PageRequest], Answer]:
        """Return the response to a form that starts an operation."""

        def answer(request: PageRequest) -> Answer:
            if not session.is_own_form(request.scope, request.form):
                return message_page(
                    403, "This form was not sent from this page: reload the page", request.scope
                )
            namespace, name = request.parts["namespace"], request.parts["name"]
            try:
                run = self._overview.ask(verb, namespace, name)
            except Conflict:
                return message_page(409, f"{name} has just changed: reload the page", request.scope)
            _LOG.info("%s of %s/%s was requested on the page", verb, namespace, name)
            return redirect(f"/runs/{namespace}/{run}" if run else f"/schedules/{namespace}/{name}")

        return answer

    # Schedules

    def schedules(self, request: PageRequest) -> Answer:
        namespace = request.query.get("namespace", "")
        content = schedules_content(self._overview.schedules(namespace), self._now())
        return html("schedules.html.j2", {**content, "namespace": namespace}, request.scope)

    def schedule(self, request: PageRequest) -> Answer:
        namespace, name = request.parts["namespace"], request.parts["name"]
        schedule = self._overview.schedule(namespace, name)
        if schedule is None:
            why = f"Schedule {name} does not exist in namespace {namespace}"
            return message_page(404, why, request.scope)
        content = schedule_content(schedule, self._overview.runs(), self._now())
        key = session.form_key(request.scope)
        return html("schedule.html.j2", {**content, "form_key": key}, request.scope)

    # Signing in

    def sign_in(self, request: PageRequest) -> Answer:
        return self._sign_in_page(request, 200, "")

    def submit_token(self, request: PageRequest) -> Answer:
        token = "".join(request.form.get("token", "").split())
        if session.header_of(request.scope, b"sec-fetch-site") not in ("", "same-origin"):
            return self._sign_in_page(request, 403, "This form was sent from another page")
        is_text = token.isascii() and token.isprintable()
        if not token or not is_text or any(character in token for character in ';,"\\'):
            return self._sign_in_page(request, 400, "This is not a token")
        # Only authentication matters here, so the permission in the request is arbitrary.
        if self._review is not None:
            attributes = {"nonResourceAttributes": {"path": session.HOME, "verb": "get"}}
            if self._review(token, attributes) is Access.UNKNOWN:
                return self._sign_in_page(request, 401, "The cluster does not accept this token")
        return redirect(
            session.return_url(request.query.get("next", "")), token=token, scope=request.scope
        )

    def sign_out(self, request: PageRequest) -> Answer:
        return redirect(session.SIGN_IN, token="", scope=request.scope)

    def _sign_in_page(self, request: PageRequest, status: int, trouble: str) -> Answer:
        content = {"trouble": trouble, "wanted": session.return_url(request.query.get("next", ""))}
        return html("signin.html.j2", content, request.scope, status)

    def failed(self, request: PageRequest, error: KanisterError) -> Answer:
        status = next((code for kind, code in _STATUSES if isinstance(error, kind)), 500)
        return message_page(status, error.message, request.scope)


def html(template: str, content: Mapping[str, object], scope: Scope, status: int = 200) -> Answer:
    """Build a response with a page."""
    body = page(template, **content, is_signed_in=bool(session.cookie_in(scope)))
    return answer_of(status, _HTML, body, {**page_headers(), "cache-control": "no-store"})


def message_page(status: int, message: str, scope: Scope) -> Answer:
    """Build a page with an error message."""
    return html("message.html.j2", {"message": message, "status": status}, scope, status)


def redirect(address: str, *, token: str | None = None, scope: Scope | None = None) -> Answer:
    """Redirect a browser. `token` sets its cookie, and an empty one deletes it."""
    headers = {"location": address, "content-length": "0", "cache-control": "no-store"}
    if token is not None and scope is not None:
        headers["set-cookie"] = session.cookie_of(token, scope)
    return Answer(303, encoded_headers(headers))


class PageRoute:
    """Route of a page: reads the request, responds in a thread, and counts it."""

    def __init__(
        self, route: str, answer: Callable[[PageRequest], Answer], pages: Pages, metrics: Metrics
    ) -> None:
        self._route = route
        self._answer = answer
        self._pages = pages
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()
        form = await _form_in(receive) if scope["method"] == "POST" else {}
        query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        request = PageRequest(scope, scope.get("path_params", {}), query, form)
        answer = await run_in_threadpool(self._respond, request)
        seconds = perf_counter() - started
        self._metrics.record_request(self._route, scope["method"], answer.status, seconds)
        await send_answer(answer, send, has_body=scope["method"] != "HEAD")

    def _respond(self, request: PageRequest) -> Answer:
        try:
            return self._answer(request)
        except KanisterError as error:
            return self._pages.failed(request, error)


async def _form_in(receive: Receive) -> dict[str, str]:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _LONGEST_FORM:
            return {}
        if not message.get("more_body"):
            return dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True))


def live_routes(pages: Pages, overview: Overview, metrics: Metrics) -> list[BaseRoute]:
    """Return the routes of all pages."""

    def route(path: str, answer: Callable[[PageRequest], Answer], method: str = "GET") -> Route:
        return Route(path, PageRoute(path, answer, pages, metrics), methods=[method])

    files = {path: Representation(*asset(file)) for path, file in ASSETS.items()}

    def file(path: str) -> Callable[[PageRequest], Answer]:
        return lambda request: files[path].answer(
            session.header_of(request.scope, b"if-none-match").encode() or None
        )

    return [
        route(RUNS, pages.runs),
        route(RUNS_NOW, pages.runs_now),
        Route(RUNS_EVENTS, EventStream(overview), methods=["GET"]),
        *(route(path, pages.act(verb), "POST") for verb, path in ACTS.items()),
        route(RUN_NOW, pages.run_now),
        Route(EVENTS, EventStream(overview), methods=["GET"]),
        route(RUN, pages.run),
        route(SCHEDULES, pages.schedules),
        *(route(path, pages.act(verb), "POST") for verb, path in SCHEDULE_ACTS.items()),
        route(SCHEDULE, pages.schedule),
        route(session.SIGN_IN, pages.sign_in),
        route(session.SIGN_IN, pages.submit_token, "POST"),
        route(SIGN_OUT, pages.sign_out, "POST"),
        *(route(path, file(path)) for path in ASSETS),
    ]
