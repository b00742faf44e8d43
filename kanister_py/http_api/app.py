"""Endpoint: its routes and their responses."""

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
from kanister_py.http_api.negotiation import JSON, YAML, RequestOptions
from kanister_py.http_api.openapi import describe_api
from kanister_py.http_api.page import own_headers, render_page
from kanister_py.http_api.phase_lines import PATH, LinesOf, lines_route
from kanister_py.http_api.problems import problem_answer

ALLOWED = ("GET", "HEAD")
MOST_CHARACTERS_OF_AN_ADDRESS = 4096
MOST_BYTES_OF_HEADERS = 16384

_STATUSES = ("stable", *(str(support) for support in Support))
_START_PATHS = ("/v1/functions", "/v1/versions.yaml", "/openapi.json", "/")

_ALLOW = ", ".join(ALLOWED)
_NOT_ALLOWED = problem_answer(
    405, "MethodNotAllowed", f"The endpoint is read-only: use {_ALLOW}", None, {"allow": _ALLOW}
)
_NOT_FOUND = problem_answer(
    404,
    "NotFound",
    f"This path does not exist; start at {_START_PATHS[0]}",
    {"known": [*_START_PATHS]},
)
_TOO_LONG = problem_answer(
    414, "URITooLong", f"Paths have at most {MOST_CHARACTERS_OF_AN_ADDRESS} characters"
)
_TOO_MANY_HEADERS = problem_answer(
    431,
    "RequestHeaderFieldsTooLarge",
    f"The headers of a request may have at most {MOST_BYTES_OF_HEADERS} bytes in total",
)
_FAULT = problem_answer(500, "Fault", "This is a defect of kanister-py; see its log for details")

_NO_STORE = {"cache-control": "no-store"}
_ALIVE = json_answer(200, {"status": "alive"}, _NO_STORE)

Check = Callable[[], str]
"""Returns the problem, or an empty text."""

# Responds to a request, given the parameters of its path and the options in its headers.
Responder = Callable[[Mapping[str, str], RequestOptions], Answer]


class Endpoint:
    """Route that checks the limits of requests, responds to them, and counts them."""

    def __init__(self, route: str, respond: Responder, metrics: Metrics) -> None:
        self._route = route
        self._respond = respond
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature; bodies of requests are ignored
        started = perf_counter()
        method = scope["method"]
        answer = _FAULT
        try:
            answer = self._answer(method, scope)
        finally:
            # Count before sending, so that the next scrape includes this one.
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
            # Regular expressions of routes ignore a line break at the end of a path.
            return _NOT_FOUND
        options = RequestOptions(scope["headers"], scope.get("query_string", b""))
        if options.size > MOST_BYTES_OF_HEADERS:
            return _TOO_MANY_HEADERS
        return self._respond(scope.get("path_params", {}), options)


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
    """Build the endpoint for a publication.

    `checks` determine readiness. `uses` and `revisions` return the uses and function revisions
    in a cluster, or None while they are unknown. `lines` returns the log lines of phases, and
    `live` the routes of the web pages. Raises `CatalogueMismatch` if the registry does not match
    versions.yaml.
    """
    discovery = Discovery(publication, uses, revisions)
    metrics = metrics or Metrics()
    _record_functions(metrics, discovery, publication)
    routes = _routes(publication, discovery, checks or {}, metrics, lines)
    app = Starlette(
        routes=[
            *live(metrics),
            *(Route(path, Endpoint(path, respond, metrics)) for path, respond in routes.items()),
        ],
        exception_handlers={Exception: _fault},
    )
    app.router.redirect_slashes = False
    unmatched: ASGIApp = Endpoint("unmatched", lambda _parts, _options: _NOT_FOUND, metrics)
    app.router.default = unmatched
    return app


async def _fault(_request: Request, _error: Exception) -> Response:
    # The server logs the error itself.
    headers = {name.decode(): value.decode() for name, value in _FAULT.headers}
    return Response(_FAULT.body, _FAULT.status, headers)


def _routes(
    publication: Publication,
    discovery: Discovery,
    checks: Mapping[str, Check],
    metrics: Metrics,
    lines: LinesOf | None,
) -> dict[str, Responder]:
    page = _page_of(publication, discovery)
    record = Representation(YAML, publication.versions_yaml.encode())
    schema = Representation("application/schema+json", publication.versions_schema.encode())
    description = describe_api(publication, discovery.references, has_lines=lines is not None)
    api = Representation(JSON, json_bytes(description))
    return {
        **({PATH: lines_route(lines)} if lines is not None else {}),
        "/v1/functions": lambda _, options: discovery.functions(None, options),
        "/v1/functions.json": lambda _, options: discovery.functions(JSON, options),
        "/v1/functions.yaml": lambda _, options: discovery.functions(YAML, options),
        "/v1/functions/{name}": lambda parts, options: discovery.function(parts["name"], options),
        "/v1/functions/{name}/versions/{version}": lambda parts, options: discovery.version(
            parts["name"], parts["version"], options
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
    """Build an app with health and metrics only."""
    routes = _health_routes(checks, metrics)
    return Starlette(
        routes=[Route(path, Endpoint(path, respond, metrics)) for path, respond in routes.items()]
    )


def _health_routes(
    checks: Mapping[str, Check],
    metrics: Metrics,
) -> dict[str, Responder]:
    def scrape(_parts: Mapping[str, str], options: RequestOptions) -> Answer:
        media_type, body = metrics.exposition((options.accept or b"").decode("latin-1"))
        return answer_of(200, media_type, body, _NO_STORE)

    def ready(_parts: Mapping[str, str], _wishes: RequestOptions) -> Answer:
        problems = {name: check() for name, check in sorted(checks.items())}
        status = "not ready" if any(problems.values()) else "ready"
        states = {name: problem or "fine" for name, problem in problems.items()}
        document = {"status": status, "checks": states}
        return json_answer(503 if any(problems.values()) else 200, document, _NO_STORE)

    return {"/metrics": scrape, "/healthz": lambda _parts, _wishes: _ALIVE, "/readyz": ready}


def _page_of(publication: Publication, discovery: Discovery) -> Callable[[], Representation]:
    """Return a function that renders the page, again only when the revisions have changed."""

    def render(revisions: Revisions | None) -> Representation:
        body = render_page(publication, discovery, revisions or ())
        return Representation("text/html; charset=utf-8", body, own_headers())

    rendered: tuple[Revisions | None, Representation] = None, render(None)

    def page() -> Representation:
        nonlocal rendered
        revisions = discovery.revisions()
        if rendered[0] is not revisions:
            rendered = revisions, render(revisions)
        return rendered[1]

    return page


def _record_functions(metrics: Metrics, discovery: Discovery, publication: Publication) -> None:
    counts = Counter(reference["status"] for reference in discovery.references.values())
    versions = {status: counts[status] for status in _STATUSES}
    metrics.record_functions(len(publication.registry), versions, publication.release.bare)
