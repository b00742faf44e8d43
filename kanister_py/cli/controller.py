"""Run the ActionSets of a cluster, in place of Kanister's controller.

kanister-py controller --namespace shop --namespace billing
kanister-py controller --all-namespaces --leader-elect --log-format json
kanister-py controller --context staging --keep 20

Blueprints and ActionSets stay as they are. Without --namespace it watches the namespace it
runs in, or the one of the kubeconfig's context. Kanister's own controller must not run in
a namespace that this one watches; a second kanister-py is refused too, unless it is to
stand by (--leader-elect) and take over when the first one is gone.

With --partition VALUE it acts only on objects that have the label kanister-py.io/partition with
this value, so that several controllers divide the work. Two that would act on the same objects
are refused. Compositions, Functions, definitions, claims and all that is cluster-scoped belong
to the controller without --partition.

SIGTERM and Ctrl-C let phases end that nobody could take up, for as long as --drain says;
everything else is left as it is, and the next controller goes on with it.

Exit codes:
  0    it was stopped
  1    it cannot act, and says why on stderr
  64   the command line cannot be read
  75   it led, and does not any more: another replica holds the Lease, or may soon, because
       this one could not renew it. The log says who. Start it again, as a Deployment does
       with its pod: it stands by (--leader-elect), or leads once the Lease is free

Logs go to stderr. Health and metrics are served apart from everything else:
  /healthz /readyz /metrics   on --health-port
  /v1/functions … /          on --port, for this machine alone unless --host says otherwise:
                             then a token of the cluster is asked for, whose owner must have
                             the right to get that path
  /v1/namespaces/NAMESPACE/actionsets/NAME/lines
                             there too: what phases printed; takes the right to get that
                             ActionSet. /openapi.json describes all of it
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kanister_py.cli import exit_codes
from kanister_py.cli.controller_compositions import (
    add_composition_arguments,
    composition_parts,
)
from kanister_py.cli.controller_webhook import add_webhook_arguments, webhook_served
from kanister_py.cli.listening import is_loopback, listening, served
from kanister_py.cli.parser import (
    add_tracing_argument,
    namespace,
    network,
    partition,
    port,
    repeated,
    seconds_from,
    switch,
    whole,
)
from kanister_py.cli.stop_signals import StopSignals
from kanister_py.core.errors import LeadershipLost, UsageError

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from kanister_py.controller.actionsets.concurrency import Limit
    from kanister_py.controller.controller import Controller, ControllerSettings
    from kanister_py.controller.machine.logs import PhaseLines
    from kanister_py.controller.overview import ClusterOverview
    from kanister_py.core.actionsets.uses import Uses
    from kanister_py.http_api.app import Check
    from kanister_py.http_api.discovery import Revisions
    from kanister_py.http_api.guard import Review
    from kanister_py.http_api.phase_lines import LinesOf
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster
    from kanister_py.ports.overview import Overview
    from kanister_py.wiring import Functions

_HEALTH_PORT: Final = 8641
_PORT: Final = 8640
_SPARE_CONNECTIONS: Final = 16
_MOST_AT_ONCE: Final = 9_999
_MOST_KEPT: Final = 999_999


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_where(parser.add_argument_group("where it acts"))
    _add_how_much(parser.add_argument_group("how much it does"))
    add_composition_arguments(parser.add_argument_group("compositions"))
    _add_replicas(parser.add_argument_group("replicas"))
    _add_reports(parser.add_argument_group("what it tells"))
    add_webhook_arguments(parser.add_argument_group("admission webhook"))


def _add_where(where: Any) -> None:
    repeated(
        where,
        "-n",
        "--namespace",
        dest="namespaces",
        type=namespace,
        metavar="NAMESPACE",
        help="watch this namespace; may be given several times",
    )
    switch(where, "--all-namespaces", help="watch all namespaces")
    where.add_argument(
        "--partition",
        type=partition,
        default="",
        metavar="VALUE",
        help="act on objects whose label kanister-py.io/partition is VALUE; without it on those "
        "that have no such label, and on everything cluster-scoped",
    )
    switch(
        where,
        "--allow-cross-namespace-blueprints",
        help="let an ActionSet name a Blueprint of another namespace, as NAMESPACE/NAME",
    )
    repeated(
        where,
        "--allow-address",
        dest="allowed_networks",
        type=network,
        metavar="CIDR",
        help="let HTTPRequest of other namespaces' ActionSets reach these addresses of the "
        "controller's surroundings; loopback, link-local and the API server are closed to them",
    )
    switch(
        where,
        "--allow-file-locations",
        help="let other namespaces' ActionSets use Profiles of type file: folders of this process",
    )
    switch(
        where,
        "--allow-ambient-credentials",
        help="let other namespaces' ActionSets use the cloud credentials of this process",
    )
    switch(
        where,
        "--impersonate-service-accounts",
        help="let runs act as the ServiceAccount that spec.serviceAccountName of the ActionSet or "
        "the annotation kanister-py.io/service-account of its namespace names",
    )
    where.add_argument("--kubeconfig", default="", metavar="FILE", help="how to reach the cluster")
    where.add_argument("--context", default="", help="which context of the kubeconfig")
    switch(
        where,
        "--check-access",
        help="ask the cluster for the rights of all phases before the first one of an action acts",
    )
    switch(
        where,
        "--strict-versions",
        help="refuse versions that are not known, and releases of other people's functions that "
        "no version here stands for",
    )


def _add_how_much(much: Any) -> None:
    much.add_argument(
        "--workers",
        type=whole(1, _MOST_AT_ONCE),
        default=32,
        metavar="N",
        help="phases at work at once; one that only waits does not count; default: %(default)s",
    )
    much.add_argument(
        "--workers-per-namespace",
        type=whole(0, _MOST_AT_ONCE),
        default=0,
        metavar="N",
        help="the same for each namespace; default: all of them where one namespace is watched, "
        "else three quarters",
    )
    repeated(
        much,
        "--limit",
        dest="limits",
        type=_limit,
        metavar="[NAMESPACE/]BLUEPRINT[:ACTION]=N",
        help="run N ActionSets at once of those with such an action, the oldest first; * for all "
        "Blueprints; may be given several times",
    )
    switch(
        much, "--paused", help="begin nothing new: runs that are under way go on, composing rests"
    )
    switch(
        much,
        "--disable-actionsets",
        help="run no ActionSets, only compose, beside a controller that runs them",
    )
    much.add_argument(
        "--keep",
        type=whole(0, _MOST_KEPT),
        metavar="N",
        help="keep the newest N ActionSets that ended for each Blueprint, delete the others; "
        "default: keep all that say no time to live",
    )


def _origin(text: str) -> str:
    from kanister_py.core.actionsets.failure_notices import origin_of

    origin = origin_of(text)
    if origin and text.rstrip("/").count("/") == 2:
        return origin
    wanted = "must be an origin such as https://hooks.example.org or http://alerts.monitoring:9093"
    raise argparse.ArgumentTypeError(f"{wanted}, found {text!r}")


def _limit(text: str) -> Limit:
    from kanister_py.controller.actionsets.concurrency import parse_limit

    try:
        return parse_limit(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def _add_replicas(replicas: Any) -> None:
    switch(
        replicas,
        "--leader-elect",
        help="stand by while another replica acts, and take over when it is gone",
    )
    replicas.add_argument(
        "--home", type=namespace, metavar="NAMESPACE", help="where the Lease is; default: its own"
    )
    replicas.add_argument(
        "--identity", default="", help="what this replica is called; default: its pod's name"
    )
    replicas.add_argument(
        "--drain",
        type=seconds_from("0s"),
        default="20s",
        metavar="DURATION",
        help="how long phases may go on at a stop that nobody could take up; default: %(default)s",
    )


def _add_reports(reports: Any) -> None:
    add_tracing_argument(reports)
    repeated(
        reports,
        "--notify",
        type=_origin,
        metavar="ORIGIN",
        help="where notices of failures may go, such as https://hooks.example.org; may be given "
        "several times; default: nowhere",
    )
    reports.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="default: %(default)s"
    )
    reports.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="default: %(default)s",
    )
    reports.add_argument("--host", default="127.0.0.1", help="where functions are published")
    reports.add_argument(
        "--port", type=port, default=_PORT, help="its port, 0 for any; default: %(default)s"
    )
    switch(
        reports,
        "--open-endpoint",
        help="ask nobody on this machine for a token; from elsewhere one is always needed",
    )
    reports.add_argument("--health-host", default="127.0.0.1", help="where health is told")
    reports.add_argument(
        "--health-port", type=port, default=_HEALTH_PORT, help="its port; default: %(default)s"
    )
    switch(reports, "--no-http", help="listen nowhere")


def run(args: argparse.Namespace) -> int:
    # A signal that comes before the controller is ready to hear it is kept for it.
    with StopSignals() as signals, ExitStack() as stack:
        return _run(args, signals, stack)


def _run(args: argparse.Namespace, signals: StopSignals, stack: ExitStack) -> int:
    from kanister_py.cli.installed import installed_functions
    from kanister_py.controller.machine.logs import set_up_logging
    from kanister_py.wiring import system_clock

    set_up_logging(args.log_format, sys.stderr, args.log_level)
    addresses = ((args.host, args.port), (args.health_host, args.health_port))
    taken = [stack.enter_context(listening(*each)) for each in (() if args.no_http else addresses)]
    webhook_at = None
    if args.webhook_port:
        webhook_at = stack.enter_context(listening(args.webhook_host, args.webhook_port))
    functions = installed_functions(is_checked=True)
    clock = system_clock()
    cluster = _cluster(args, stack)
    controller = _controller(args, functions, cluster, clock, stack)
    checks = dict(controller.checks())
    if webhook_at is not None:
        checks["webhook"] = stack.enter_context(
            webhook_served(args, functions, cluster, clock, controller.settings.home, webhook_at)
        )
    if taken:
        from kanister_py.executor.session_key import keep_session_key

        apps = apps_of(
            controller,
            functions,
            checks,
            sources_of(
                cluster,
                clock,
                functions,
                controller.settings.namespaces,
                stack,
                has_actionsets=controller.settings.runs_actionsets,
                has_revisions=args.enable_compositions,
            ),
            asks_for_tokens=not (args.open_endpoint and is_loopback(taken[0])),
            is_local=is_loopback(taken[0]),
            overview=followed(controller, cluster, clock, stack),
            # Replicas share the key for the pages of runs, which others do not have.
            session_key=partial(keep_session_key, cluster, controller.settings.home)
            if controller.settings.runs_actionsets
            else None,
        )
        for socket_, app in zip(taken, apps, strict=True):
            stack.enter_context(served(app, socket_))
    _tune_garbage_collection()
    return ending_of(controller, signals)


def _tune_garbage_collection() -> None:
    """Collect garbage often, but not among what stays to the end: so it costs little.

    A run that has ended is a ring of objects, which keeps its memory until it is collected.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 10, 5)


def ending_of(controller: Controller, signals: StopSignals) -> int:
    """Run a controller until it is stopped, and say with which code the process ends."""
    signals.call(controller.ask_to_stop)
    try:
        controller.run()
    except LeadershipLost:
        # The log says so already, with all that is known.
        return exit_codes.LEADERSHIP_LOST
    return 0


def _cluster(args: argparse.Namespace, stack: ExitStack) -> Cluster:
    from kanister_py.wiring import open_cluster

    pool_size = args.workers + _SPARE_CONNECTIONS
    return stack.enter_context(
        open_cluster(kubeconfig=args.kubeconfig, context=args.context, pool_size=pool_size)
    )


def _controller(
    args: argparse.Namespace,
    functions: Functions,
    cluster: Cluster,
    clock: Clock,
    stack: ExitStack,
) -> Controller:
    from kanister_py.controller.controller import Controller
    from kanister_py.executor.function_source import FunctionSource
    from kanister_py.executor.loading import load_function
    from kanister_py.wiring import notice_receivers, object_stores, system_effects

    source = FunctionSource(functions.registry, load_function, args.strict_versions)
    settings = settings_of(args, os.environ, cluster.default_namespace)
    parts = composition_parts(args, functions, settings.home, stack)
    receivers = notice_receivers(args.notify) if args.notify else None
    settings = settings._replace(receivers=receivers)
    return Controller(
        cluster,
        source,
        clock=clock,
        settings=settings,
        effects=system_effects(clock),
        stores=object_stores(),
        parts=parts,
    )


def settings_of(
    args: argparse.Namespace, environment: Mapping[str, str], own_namespace: str
) -> ControllerSettings:
    """Settle the settings: by the command line, then by the environment of the process."""
    from secrets import token_hex

    from kanister_py.controller.controller import ControllerSettings
    from kanister_py.ports.confinement import Confinement

    own = environment.get("POD_NAMESPACE") or own_namespace or "default"
    namespaces: tuple[str, ...] = tuple(dict.fromkeys(args.namespaces)) or (own,)
    identity = (
        args.identity
        or environment.get("POD_NAME")
        or f"{socket.gethostname()}_{os.getpid()}_{token_hex(4)}"
    )
    return ControllerSettings(
        namespaces=() if args.all_namespaces else namespaces,
        home=args.home or own,
        identity=identity,
        partition=args.partition,
        allows_other_namespaces=args.allow_cross_namespace_blueprints,
        confinement=Confinement(
            "",
            allows_file_locations=args.allow_file_locations,
            allows_ambient_credentials=args.allow_ambient_credentials,
            allowed_networks=tuple(args.allowed_networks),
            refused_addresses=_api_server_addresses(environment),
        ),
        impersonates=args.impersonate_service_accounts,
        stands_by=args.leader_elect,
        workers=args.workers,
        workers_per_namespace=args.workers_per_namespace,
        keep_newest=args.keep,
        limits=tuple(args.limits),
        runs_actionsets=not args.disable_actionsets,
        composes=args.enable_compositions,
        is_paused=args.paused,
        drain_seconds=args.drain,
        checks_access=args.check_access,
    )


def _api_server_addresses(environment: Mapping[str, str]) -> frozenset[str]:
    """Find the addresses under which pods of this cluster reach its API server."""
    host = environment.get("KUBERNETES_SERVICE_HOST")
    if not host:
        return frozenset()
    try:
        places = socket.getaddrinfo("kubernetes.default.svc", 443, type=socket.SOCK_STREAM)
    except OSError:
        places = []
    return frozenset({host, *(str(place[4][0]) for place in places)})


# What it serves


class Apps(NamedTuple):
    """Apps that are served beside the controller, in the order of their addresses."""

    functions: ASGIApp
    health: ASGIApp


class EndpointSources(NamedTuple):
    """Sources of the endpoint about a cluster: what it uses and has, and whose a token is."""

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
    """Count what a cluster uses every now and then, on a thread of its own.

    Each is read only where the controller may: revisions of functions if it composes.
    """
    from kanister_py.controller.censuses import RevisionCensus, UsageCensus
    from kanister_py.executor.refused_reads import RefusedReads
    from kanister_py.executor.review_access import AccessReviewer

    where = (namespaces or ("",)) if has_actionsets else ()
    usage = UsageCensus(cluster, functions.registry, where, RefusedReads(clock))
    revisions = RevisionCensus(cluster, functions.registry)
    for census in (usage, revisions) if has_revisions else (usage,):
        repeating = census.every_now_and_then(clock)
        stack.callback(repeating.close)
        repeating.start()
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
    """Build what is served: functions and runs for those who may see them, health apart."""
    from kanister_py.cli.installed import publication_of
    from kanister_py.executor.review_access import Access
    from kanister_py.http_api.app import build_app, build_health_app
    from kanister_py.http_api.live.routes import Pages, live_routes
    from kanister_py.http_api.metrics import Metrics
    from kanister_py.wiring import system_clock

    metrics = Metrics(controller.metrics.registry)
    checks = checks or controller.checks()
    # Where nothing can check tokens, no request gets through.
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
        from kanister_py.http_api.guard import OwnHosts

        app = OwnHosts(app)
    return Apps(app, build_health_app(checks, metrics))


def lines_of(lines: PhaseLines) -> LinesOf:
    """Give the log lines of an ActionSet's phases as the endpoint asks for them."""
    from kanister_py.executor.watch_cache import ObjectKey

    def give(namespace: str, name: str, after: int) -> list[dict[str, Any]]:
        found = lines.lines(ObjectKey(namespace, name), after=after)
        return [each.as_dict() for each in found]

    return give


# Pages


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
