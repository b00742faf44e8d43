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
_MOST_KEPT: Final = 100
_LONGEST_FORM: Final = 16_384

_STATUSES: Final = ((NotFound, 404), (Forbidden, 403), (TransientError, 503), (UsageError, 409))

Review = Callable[[str, Mapping[str, object]], Access]


class Ask(NamedTuple):
    """One request, as far as a page needs it."""

    scope: Scope
    parts: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]


class Pages:
    """The pages over what is seen of runs. Without `review` nobody has to sign in."""

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
        self._kept_of = -1
        self._kept: dict[tuple[tuple[str, str], ...], Representation] = {}

    # The list

    def runs(self, ask: Ask) -> Answer:
        seen = self._overview.runs()
        listed = runs_content(seen, ask.query, self._now())
        choices = choices_of(seen, ask.query.get("namespace", ""))
        return html("runs.html.j2", {**listed, "choices": choices}, ask.scope)

    def runs_now(self, ask: Ask) -> Answer:
        seen = self._overview.runs()
        asked = (*sorted(ask.query.items()), ("", seen.trouble))
        with self._lock:
            if self._kept_of != seen.version or len(self._kept) >= _MOST_KEPT:
                self._kept_of, self._kept = seen.version, {}
            kept = self._kept.get(asked)
        if kept is None:
            # The same for all who ask for the same, as long as nothing changes.
            body = page("rows.html.j2", **runs_content(seen, ask.query, self._now()))
            kept = Representation(_HTML, body, {"cache-control": "private, no-cache"})
            with self._lock:
                if self._kept_of == seen.version:
                    self._kept[asked] = kept
        return kept.answer(session.header_of(ask.scope, b"if-none-match").encode() or None)

    # One run

    def run(self, ask: Ask) -> Answer:
        return self._shown(ask, "run.html.j2")

    def run_now(self, ask: Ask) -> Answer:
        return self._shown(ask, "run_now.html.j2")

    def _shown(self, ask: Ask, template: str) -> Answer:
        namespace, name = ask.parts["namespace"], ask.parts["name"]
        found = self._overview.read(namespace, name)
        if found is None:
            why = f"There is no ActionSet {name} in namespace {namespace}"
            return message_page(404, why, ask.scope)
        now = self._now()
        content = run_content(timeline_of(found, now), now, session.form_key(ask.scope))
        if template == "run.html.j2":
            lines: Sequence[Mapping[str, object]] = ()
            content["trouble"] = ""
            try:
                lines = self._overview.lines(namespace, name, 0)
            except KanisterError as error:
                content["trouble"] = error.message
            content["lines"] = lines[-_LAST_LINES:]
            content["left_out"] = max(0, len(lines) - _LAST_LINES)
        return html(template, content, ask.scope)

    def act(self, verb: str) -> Callable[[Ask], Answer]:
        """Make the answer to a form that asks for something to be done."""

        def answer(ask: Ask) -> Answer:
            if not session.is_our_form(ask.scope, ask.form):
                return message_page(
                    403, "This form is not of this page: load the page again", ask.scope
                )
            namespace, name = ask.parts["namespace"], ask.parts["name"]
            try:
                run = self._overview.ask(verb, namespace, name)
            except Conflict:
                return message_page(409, f"{name} has just changed: look at it again", ask.scope)
            _LOG.info("%s of %s/%s was asked for on the page", verb, namespace, name)
            return see(f"/runs/{namespace}/{run}" if run else f"/schedules/{namespace}/{name}")

        return answer

    # Schedules

    def schedules(self, ask: Ask) -> Answer:
        namespace = ask.query.get("namespace", "")
        content = schedules_content(self._overview.schedules(namespace), self._now())
        return html("schedules.html.j2", {**content, "namespace": namespace}, ask.scope)

    def schedule(self, ask: Ask) -> Answer:
        namespace, name = ask.parts["namespace"], ask.parts["name"]
        found = self._overview.schedule(namespace, name)
        if found is None:
            why = f"There is no Schedule {name} in namespace {namespace}"
            return message_page(404, why, ask.scope)
        content = schedule_content(found, self._overview.runs(), self._now())
        key = session.form_key(ask.scope)
        return html("schedule.html.j2", {**content, "form_key": key}, ask.scope)

    # Signing in

    def sign_in(self, ask: Ask) -> Answer:
        return self._way_in(ask, 200, "")

    def take_token(self, ask: Ask) -> Answer:
        token = "".join(ask.form.get("token", "").split())
        if session.header_of(ask.scope, b"sec-fetch-site") not in ("", "same-origin"):
            return self._way_in(ask, 403, "This form was sent from another page")
        is_text = token.isascii() and token.isprintable()
        if not token or not is_text or any(each in token for each in ';,"\\'):
            return self._way_in(ask, 400, "This is no token")
        # Any right is asked for: the answer says whether the cluster knows the token at all.
        if self._review is not None:
            asked = {"nonResourceAttributes": {"path": session.HOME, "verb": "get"}}
            if self._review(token, asked) is Access.UNKNOWN:
                return self._way_in(ask, 401, "The cluster does not know this token")
        return see(session.way_back(ask.query.get("next", "")), token=token, scope=ask.scope)

    def sign_out(self, ask: Ask) -> Answer:
        return see(session.SIGN_IN, token="", scope=ask.scope)

    def _way_in(self, ask: Ask, status: int, trouble: str) -> Answer:
        content = {"trouble": trouble, "wanted": session.way_back(ask.query.get("next", ""))}
        return html("signin.html.j2", content, ask.scope, status)

    def failed(self, ask: Ask, error: KanisterError) -> Answer:
        status = next((code for kind, code in _STATUSES if isinstance(error, kind)), 500)
        return message_page(status, error.message, ask.scope)


def html(template: str, content: Mapping[str, object], scope: Scope, status: int = 200) -> Answer:
    """Answer with a page."""
    body = page(template, **content, is_signed_in=bool(session.cookie_in(scope)))
    return answer_of(status, _HTML, body, {**page_headers(), "cache-control": "no-store"})


def message_page(status: int, message: str, scope: Scope) -> Answer:
    """Answer a person with a message about what is wrong."""
    return html("message.html.j2", {"message": message, "status": status}, scope, status)


def see(address: str, *, token: str | None = None, scope: Scope | None = None) -> Answer:
    """Send a browser elsewhere, and have it keep a token or forget it."""
    headers = {"location": address, "content-length": "0", "cache-control": "no-store"}
    if token is not None and scope is not None:
        headers["set-cookie"] = session.cookie_of(token, scope)
    return Answer(303, encoded_headers(headers))


class PageRoute:
    """Route of a page: reads the request, answers it on a thread, and counts it."""

    def __init__(
        self, route: str, answer: Callable[[Ask], Answer], pages: Pages, metrics: Metrics
    ) -> None:
        self._route = route
        self._answer = answer
        self._pages = pages
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()
        form = await _form_in(receive) if scope["method"] == "POST" else {}
        query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        ask = Ask(scope, scope.get("path_params", {}), query, form)
        answer = await run_in_threadpool(self._answered, ask)
        seconds = perf_counter() - started
        self._metrics.record_request(self._route, scope["method"], answer.status, seconds)
        await send_answer(answer, send, has_body=scope["method"] != "HEAD")

    def _answered(self, ask: Ask) -> Answer:
        try:
            return self._answer(ask)
        except KanisterError as error:
            return self._pages.failed(ask, error)


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
    """Give the routes of all pages."""

    def route(path: str, answer: Callable[[Ask], Answer], method: str = "GET") -> Route:
        return Route(path, PageRoute(path, answer, pages, metrics), methods=[method])

    files = {path: Representation(*asset(file)) for path, file in ASSETS.items()}

    def file(path: str) -> Callable[[Ask], Answer]:
        return lambda ask: files[path].answer(
            session.header_of(ask.scope, b"if-none-match").encode() or None
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
        route(session.SIGN_IN, pages.take_token, "POST"),
        route(SIGN_OUT, pages.sign_out, "POST"),
        *(route(path, file(path)) for path in ASSETS),
    ]
