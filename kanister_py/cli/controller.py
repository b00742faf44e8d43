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
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli import exit_codes
from kanister_py.cli.controller_compositions import (
    add_composition_arguments,
    composition_parts,
)
from kanister_py.cli.controller_endpoint import apps_of, followed, serve_apps, sources_of
from kanister_py.cli.controller_webhook import (
    add_tls_arguments,
    add_webhook_arguments,
    certificate_renewal,
    webhook_server,
)
from kanister_py.cli.listening import is_loopback, listening
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
    from kanister_py.controller.actionsets.concurrency import Limit
    from kanister_py.controller.controller import Controller, ControllerSettings
    from kanister_py.http_api.server import TlsServer
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster
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
    add_tls_arguments(parser.add_argument_group("TLS"))
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
        help="let HTTPRequests and Profiles of other namespaces' ActionSets reach these "
        "addresses of the controller's surroundings; loopback, link-local and the API server are "
        "closed to them",
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
    requirement = (
        "must be an origin such as https://hooks.example.org or http://alerts.monitoring:9093"
    )
    raise argparse.ArgumentTypeError(f"{requirement}, found {text!r}")


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
    sockets = [
        stack.enter_context(listening(*address)) for address in (() if args.no_http else addresses)
    ]
    webhook_at = None
    if args.webhook_port:
        webhook_at = stack.enter_context(listening(args.webhook_host, args.webhook_port))
    functions = installed_functions(is_checked=True)
    clock = system_clock()
    cluster = _cluster(args, stack)
    controller = _controller(args, functions, cluster, clock, stack)
    checks = dict(controller.checks())
    tls_servers: list[TlsServer] = []
    renewal = None
    if args.webhook_port or args.tls:
        renewal = certificate_renewal(args, cluster, clock, controller.settings.home, tls_servers)
        checks["webhook" if args.webhook_port else "tls"] = renewal.check
    if webhook_at is not None:
        server = webhook_server(args, functions, cluster, webhook_at)
        tls_servers.append(stack.enter_context(server))
    if sockets:
        from kanister_py.executor.session_key import ensure_session_key

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
            asks_for_tokens=not (args.open_endpoint and is_loopback(sockets[0])),
            is_local=is_loopback(sockets[0]),
            overview=followed(controller, cluster, clock, stack),
            # Replicas share the key for the pages of runs, which others do not have.
            session_key=partial(ensure_session_key, cluster, controller.settings.home)
            if controller.settings.runs_actionsets
            else None,
        )
        tls_servers += serve_apps(apps, sockets, clock, stack, uses_tls=args.tls)
    if renewal is not None:
        stack.callback(renewal.close)
        renewal.start()
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
    signals.call(controller.request_stop)
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
