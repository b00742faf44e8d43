"""Endpoint: its addresses, and the answer that each of them gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kanister_py.core.actionsets.uses import Uses
from kanister_py.core.versions.deprecation import Support
from kanister_py.http_api.answers import (
    Answer,
    Representation,
    answer_of,
    json_answer,
    json_bytes,
    send_answer,
)
from kanister_py.http_api.discovery import Discovery, Publication, Revisions
from kanister_py.http_api.metrics import Metrics
from kanister_py.http_api.negotiation import JSON, YAML, Wishes
from kanister_py.http_api.openapi import describe_api
from kanister_py.http_api.page import own_headers, render_page
from kanister_py.http_api.phase_lines import PATH, LinesOf, lines_route
from kanister_py.http_api.problems import problem_answer

ALLOWED = ("GET", "HEAD")
MOST_CHARACTERS_OF_AN_ADDRESS = 4096
MOST_BYTES_OF_HEADERS = 16384

_STATUSES = ("stable", *(str(support) for support in Support))
_KNOWN = ("/v1/functions", "/v1/versions.yaml", "/openapi.json", "/")

_ALLOW = ", ".join(ALLOWED)
_NOT_ALLOWED = problem_answer(
    405, "MethodNotAllowed", f"There is only reading here: {_ALLOW}", None, {"allow": _ALLOW}
)
_NOWHERE = problem_answer(
    404, "NotFound", f"There is nothing here; start at {_KNOWN[0]}", {"known": [*_KNOWN]}
)
_TOO_LONG = problem_answer(
    414, "URITooLong", f"No address here is longer than {MOST_CHARACTERS_OF_AN_ADDRESS} characters"
)
_TOO_MANY_HEADERS = problem_answer(
    431,
    "RequestHeaderFieldsTooLarge",
    f"The headers of a request may have {MOST_BYTES_OF_HEADERS} bytes in all",
)
_FAULT = problem_answer(500, "Fault", "This is a defect of kanister-py; its log says more")

_KEEP_NOTHING = {"cache-control": "no-store"}
_ALIVE = json_answer(200, {"status": "alive"}, _KEEP_NOTHING)

Check = Callable[[], str]
"""Says what is wrong, or nothing."""

# What a route is asked: the parts of its address, and the headers that matter here.
Ask = Callable[[Mapping[str, str], Wishes], Answer]


class Endpoint:
    """Route that refuses what it must, sends the answer to the rest, and counts both."""

    def __init__(self, route: str, ask: Ask, metrics: Metrics) -> None:
        self._route = route
        self._ask = ask
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature; no request here has a body that matters
        started = perf_counter()
        method = scope["method"]
        answer = _FAULT
        try:
            answer = self._answer(method, scope)
        finally:
            # Counted before it is sent, so that a scrape counts itself once it is over.
            self._metrics.record_request(
                self._route, method, answer.status, perf_counter() - started
            )
        await send_answer(answer, send, has_body=method != "HEAD")

    def _answer(self, method: str, scope: Scope) -> Answer:
        if method not in ALLOWED:
            return _NOT_ALLOWED
        if len(scope["path"]) > MOST_CHARACTERS_OF_AN_ADDRESS:
            return _TOO_LONG
        if not scope["path"].isprintable():
            # The end of a line at the end of a path would be overlooked.
            return _NOWHERE
        wishes = Wishes(scope["headers"], scope.get("query_string", b""))
        if wishes.size > MOST_BYTES_OF_HEADERS:
            return _TOO_MANY_HEADERS
        return self._ask(scope.get("path_params", {}), wishes)


def build_app(
    publication: Publication,
    *,
    checks: Mapping[str, Check] | None = None,
    metrics: Metrics | None = None,
    uses: Callable[[], Uses | None] | None = None,
    revisions: Callable[[], Revisions | None] | None = None,
    lines: LinesOf | None = None,
    live: Callable[[Metrics], Sequence[BaseRoute]] = lambda _: (),
) -> Starlette:
    """Build the endpoint over what is to be published.

    `checks` say when the process around it is not ready; `uses` says what a cluster uses,
    and `revisions` which of functions it has, None while nobody knows; `lines` gives
    what phases have printed, where a controller runs them, and `live` the routes of the pages
    of runs. A registry that does not fit its record is refused here, with `CatalogueMismatch`.
    """
    discovery = Discovery(publication, uses, revisions)
    counted = metrics or Metrics()
    _record_functions(counted, discovery, publication)
    routes = _routes(publication, discovery, checks or {}, counted, lines)
    app = Starlette(
        routes=[
            *live(counted),
            *(Route(path, Endpoint(path, ask, counted)) for path, ask in routes.items()),
        ],
        exception_handlers={Exception: _fault},
    )
    app.router.redirect_slashes = False
    nothing: ASGIApp = Endpoint("unmatched", lambda _parts, _wishes: _NOWHERE, counted)
    app.router.default = nothing
    return app


async def _fault(_request: Request, _error: Exception) -> Response:
    # The error itself goes on to the server, which logs it.
    headers = {name.decode(): value.decode() for name, value in _FAULT.headers}
    return Response(_FAULT.body, _FAULT.status, headers)


def _routes(
    publication: Publication,
    discovery: Discovery,
    checks: Mapping[str, Check],
    metrics: Metrics,
    lines: LinesOf | None,
) -> dict[str, Ask]:
    page = _page_of(publication, discovery)
    record = Representation(YAML, publication.versions_yaml.encode())
    schema = Representation("application/schema+json", publication.versions_schema.encode())
    described = describe_api(publication, discovery.references, has_lines=lines is not None)
    api = Representation(JSON, json_bytes(described))
    return {
        **({PATH: lines_route(lines)} if lines is not None else {}),
        "/v1/functions": lambda _, wishes: discovery.functions(None, wishes),
        "/v1/functions.json": lambda _, wishes: discovery.functions(JSON, wishes),
        "/v1/functions.yaml": lambda _, wishes: discovery.functions(YAML, wishes),
        "/v1/functions/{name}": lambda parts, wishes: discovery.function(parts["name"], wishes),
        "/v1/functions/{name}/versions/{version}": lambda parts, wishes: discovery.version(
            parts["name"], parts["version"], wishes
        ),
        "/v1/versions.yaml": lambda _, w: record.answer(w.if_none_match),
        "/v1/versions.schema.json": lambda _, w: schema.answer(w.if_none_match),
        "/": lambda _, w: page().answer(w.if_none_match),
        "/openapi.json": lambda _, w: api.answer(w.if_none_match),
        **_health_routes(checks, metrics),
    }


def build_health_app(
    checks: Mapping[str, Check],
    metrics: Metrics,
) -> Starlette:
    """Build the app for health and metrics alone."""
    asks = _health_routes(checks, metrics)
    return Starlette(
        routes=[Route(path, Endpoint(path, ask, metrics)) for path, ask in asks.items()]
    )


def _health_routes(
    checks: Mapping[str, Check],
    metrics: Metrics,
) -> dict[str, Ask]:
    def scrape(_parts: Mapping[str, str], wishes: Wishes) -> Answer:
        media_type, body = metrics.exposition((wishes.accept or b"").decode("latin-1"))
        return answer_of(200, media_type, body, _KEEP_NOTHING)

    def ready(_parts: Mapping[str, str], _wishes: Wishes) -> Answer:
        wrong = {name: check() for name, check in sorted(checks.items())}
        status = "not ready" if any(wrong.values()) else "ready"
        states = {name: each or "fine" for name, each in wrong.items()}
        document = {"status": status, "checks": states}
        return json_answer(503 if any(wrong.values()) else 200, document, _KEEP_NOTHING)

    return {"/metrics": scrape, "/healthz": lambda _parts, _wishes: _ALIVE, "/readyz": ready}


def _page_of(publication: Publication, discovery: Discovery) -> Callable[[], Representation]:
    """Give the page as of now: it is written anew only when the cluster has other revisions."""

    def written(revisions: Revisions | None) -> Representation:
        body = render_page(publication, discovery, revisions or ())
        return Representation("text/html; charset=utf-8", body, own_headers())

    kept = None, written(None)
    by_revisions: list[tuple[Revisions | None, Representation]] = [kept]

    def page() -> Representation:
        revisions = discovery.revisions()
        if by_revisions[0][0] is not revisions:
            by_revisions[0] = revisions, written(revisions)
        return by_revisions[0][1]

    return page


def _record_functions(metrics: Metrics, discovery: Discovery, publication: Publication) -> None:
    found = Counter(each["status"] for each in discovery.references.values())
    versions = {status: found[status] for status in _STATUSES}
    metrics.record_functions(len(publication.registry), versions, publication.release.bare)
