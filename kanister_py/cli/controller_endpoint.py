"""Endpoint, web pages and health of the controller."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from kanister_py.cli.controller_webhook import temporary_certificate
from kanister_py.cli.listening import served_in_thread

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from kanister_py.controller.controller import Controller
    from kanister_py.controller.machine.logs import PhaseLines
    from kanister_py.controller.overview import ClusterOverview
    from kanister_py.core.actionsets.uses import Uses
    from kanister_py.http_api.app import Check
    from kanister_py.http_api.discovery import Revisions
    from kanister_py.http_api.guard import Review
    from kanister_py.http_api.phase_lines import LinesOf
    from kanister_py.http_api.server import TlsServer
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster
    from kanister_py.ports.overview import Overview
    from kanister_py.wiring import Functions


class Apps(NamedTuple):
    """HTTP apps of the controller, in the order of their addresses."""

    functions: ASGIApp
    health: ASGIApp


class EndpointSources(NamedTuple):
    """Data sources of the endpoint: uses and revisions of functions, and reviews of tokens."""

    uses: Callable[[], Uses | None]
    review: Review
    revisions: Callable[[], Revisions | None] = lambda: None


def sources_of(
    cluster: Cluster,
    clock: Clock,
    functions: Functions,
    namespaces: Sequence[str],
    stack: ExitStack,
    *,
    has_actionsets: bool = True,
    has_revisions: bool = False,
) -> EndpointSources:
    """Start the periodic counts of uses and revisions, each on its own thread.

    Only objects that the controller may read are counted: revisions if it composes.
    """
    from kanister_py.controller.censuses import RevisionCensus, UsageCensus
    from kanister_py.executor.refused_reads import RefusedReads
    from kanister_py.executor.review_access import AccessReviewer

    usage_namespaces = (namespaces or ("",)) if has_actionsets else ()
    usage = UsageCensus(cluster, functions.registry, usage_namespaces, RefusedReads(clock))
    revisions = RevisionCensus(cluster, functions.registry)
    for census in (usage, revisions) if has_revisions else (usage,):
        task = census.as_periodic_task(clock)
        stack.callback(task.close)
        task.start()
    review = AccessReviewer(cluster, clock).review
    return EndpointSources(lambda: usage.uses, review, lambda: revisions.revisions)


def apps_of(
    controller: Controller,
    functions: Functions,
    checks: Mapping[str, Check] | None = None,
    sources: EndpointSources | None = None,
    *,
    asks_for_tokens: bool = False,
    is_local: bool = False,
    overview: Overview | None = None,
    session_key: Callable[[Callable[[], bytes]], bytes] | None = None,
) -> Apps:
    """Build the app of functions and runs, and the app of health and metrics."""
    from kanister_py.cli.installed import publication_of
    from kanister_py.executor.review_access import Access
    from kanister_py.http_api.app import build_app, build_health_app
    from kanister_py.http_api.live.routes import Pages, live_routes
    from kanister_py.http_api.metrics import Metrics
    from kanister_py.wiring import system_clock

    metrics = Metrics(controller.metrics.registry)
    checks = checks or controller.checks()
    # Without a source of reviews, all tokens are rejected.
    review = sources.review if sources is not None else lambda _token, _asked: Access.UNKNOWN

    def live(metrics: Metrics) -> Sequence[BaseRoute]:
        if overview is None:
            return ()
        pages = Pages(overview, system_clock().now, review if asks_for_tokens else None)
        return live_routes(pages, overview, metrics)

    routes = build_app(
        publication_of(functions),
        checks=checks,
        metrics=metrics,
        uses=sources.uses if sources is not None else None,
        revisions=sources.revisions if sources is not None else None,
        lines=lines_of(controller.lines),
        live=live,
    )
    app: ASGIApp = routes
    if asks_for_tokens:
        from kanister_py.http_api.guard import Guard
        from kanister_py.http_api.live.session import Seal

        app = Guard(routes, review, Seal(session_key(Seal.new_key) if session_key else None))
    if is_local:
        from kanister_py.http_api.guard import LocalHostsOnly

        app = LocalHostsOnly(app)
    return Apps(app, build_health_app(checks, metrics))


def lines_of(lines: PhaseLines) -> LinesOf:
    """Return the source of log lines for the endpoint."""
    from kanister_py.executor.watch_cache import ObjectKey

    def read(namespace: str, name: str, after: int) -> list[dict[str, Any]]:
        printed = lines.lines(ObjectKey(namespace, name), after=after)
        return [line.as_dict() for line in printed]

    return read


def followed(
    controller: Controller, cluster: Cluster, clock: Clock, stack: ExitStack
) -> ClusterOverview | None:
    """Follow all runs for the page, on the active replica and on standby replicas.

    Returns None for a controller that only composes: it has no right to see runs.
    """
    if not controller.settings.runs_actionsets:
        return None
    from kanister_py.controller.overview import ClusterOverview

    settings = controller.settings
    overview = ClusterOverview(
        cluster,
        clock,
        controller.lines,
        home=settings.home,
        namespaces=settings.namespaces,
    )
    stack.callback(overview.close)
    return overview


def serve_apps(
    apps: Apps,
    sockets: Sequence[socket.socket],
    clock: Clock,
    stack: ExitStack,
    *,
    uses_tls: bool,
) -> list[TlsServer]:
    """Serve the apps, and return the servers that need a certificate."""
    if not uses_tls:
        for app, listener in zip(apps, sockets, strict=True):
            stack.enter_context(served_in_thread(app, listener))
        return []
    from kanister_py.http_api.server import TlsServer

    servers = [
        stack.enter_context(TlsServer(app, listener))
        for app, listener in zip(apps, sockets, strict=True)
    ]
    servers[Apps._fields.index("health")].use(temporary_certificate(clock))
    return servers
