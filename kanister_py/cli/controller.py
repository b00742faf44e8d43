"""Run the ActionSets of a cluster, instead of Kanister's controller.

kanister-py controller --namespace shop --namespace billing
kanister-py controller --all-namespaces --leader-elect --log-format json
kanister-py controller --context staging --keep 20

Blueprints and ActionSets of Kanister work unchanged. Without --namespace, the controller watches
the namespace that it runs in, or that of the kubeconfig's context. Kanister's controller must not
run in a watched namespace. A second kanister-py controller is refused, too, unless it is a
standby replica (--leader-elect), which takes over when the first one stops.

With --partition VALUE, the controller acts only on objects whose label kanister-py.io/partition
has this value, so that several controllers divide the work. Controllers that would act on the
same objects are refused. Compositions, Functions, definitions, claims and all cluster-scoped
objects belong to the controller without --partition.

After SIGTERM or Ctrl-C, phases that no other controller can resume may continue for the time of
--drain. The next controller resumes all other phases.

Exit codes:
  0    the controller was stopped
  1    the controller cannot run; stderr has the reason
  64   the command line is malformed
  75   the controller has lost its Lease to another replica, or could not renew it; the log has
       the reason. Restart it, as a Deployment does: it becomes a standby replica, or the leader
       when the Lease is free

Logs go to stderr. Health and metrics have their own port:
  /healthz /readyz /metrics  on --health-port
  /v1/functions … /          on --port of this machine; for other machines set --host, and
                             requests then need a token of a user who may `get` the path
  /v1/namespaces/NAMESPACE/actionsets/NAME/lines
                             log lines of phases; needs permission to get the ActionSet
  /openapi.json              description of all paths
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
    whole_number,
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
_MAX_CONCURRENCY: Final = 9_999
_MAX_KEPT: Final = 999_999


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_scope_arguments(parser.add_argument_group("scope and permissions"))
    _add_work_arguments(parser.add_argument_group("amount of work"))
    add_composition_arguments(parser.add_argument_group("compositions"))
    _add_replica_arguments(parser.add_argument_group("replicas"))
    _add_report_arguments(parser.add_argument_group("logs, notifications and endpoints"))
    add_tls_arguments(parser.add_argument_group("TLS"))
    add_webhook_arguments(parser.add_argument_group("admission webhook"))


def _add_scope_arguments(group: Any) -> None:
    repeated(
        group,
        "-n",
        "--namespace",
        dest="namespaces",
        type=namespace,
        metavar="NAMESPACE",
        help="watch this namespace; may be repeated",
    )
    switch(group, "--all-namespaces", help="watch all namespaces")
    group.add_argument(
        "--partition",
        type=partition,
        default="",
        metavar="VALUE",
        help="act on objects whose label kanister-py.io/partition is VALUE; default: on objects "
        "without this label and on cluster-scoped objects",
    )
    switch(
        group,
        "--allow-cross-namespace-blueprints",
        help="allow ActionSets to name Blueprints of other namespaces, as NAMESPACE/NAME",
    )
    repeated(
        group,
        "--allow-address",
        dest="allowed_networks",
        type=network,
        metavar="CIDR",
        help="allow HTTPRequests and Profiles of ActionSets in other namespaces to reach these "
        "addresses; by default loopback, link-local addresses and the API server are blocked",
    )
    switch(
        group,
        "--allow-file-locations",
        help="allow ActionSets of other namespaces to use Profiles of type file, which read and "
        "write folders of this process",
    )
    switch(
        group,
        "--allow-ambient-credentials",
        help="allow ActionSets of other namespaces to use the cloud credentials of this process",
    )
    switch(
        group,
        "--impersonate-service-accounts",
        help="run as the ServiceAccount in spec.serviceAccountName of the ActionSet, or in the "
        "annotation kanister-py.io/service-account of its namespace",
    )
    group.add_argument("--kubeconfig", default="", metavar="FILE", help="use this kubeconfig")
    group.add_argument(
        "--context", default="", metavar="NAME", help="use this context of the kubeconfig"
    )
    switch(
        group,
        "--check-access",
        help="check the permissions that all phases of an action need before the first one starts",
    )
    switch(
        group,
        "--strict-versions",
        help="refuse unknown versions, and package releases that no built-in version replaces",
    )


def _add_work_arguments(group: Any) -> None:
    group.add_argument(
        "--workers",
        type=whole_number(1, _MAX_CONCURRENCY),
        default=32,
        metavar="N",
        help="phases to run at a time, without those that only wait; default: %(default)s",
    )
    group.add_argument(
        "--workers-per-namespace",
        type=whole_number(0, _MAX_CONCURRENCY),
        default=0,
        metavar="N",
        help="phases to run at a time in one namespace; default: all workers if one namespace is "
        "watched, else three quarters of them",
    )
    repeated(
        group,
        "--limit",
        dest="limits",
        type=_limit,
        metavar="[NAMESPACE/]BLUEPRINT[:ACTION]=N",
        help="run at most N ActionSets with such an action at a time, the oldest first; * for all "
        "Blueprints; may be repeated",
    )
    switch(
        group,
        "--paused",
        help="start no new runs and reconcile no compositions; runs in progress continue",
    )
    switch(
        group,
        "--disable-actionsets",
        help="only reconcile compositions; another controller runs ActionSets",
    )
    group.add_argument(
        "--keep",
        type=whole_number(0, _MAX_KEPT),
        metavar="N",
        help="keep the newest N ended ActionSets of each Blueprint, and delete the others; "
        "default: keep all that set no ttlSecondsAfter fields",
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


def _add_replica_arguments(group: Any) -> None:
    switch(
        group,
        "--leader-elect",
        help="run as a standby replica while another one leads",
    )
    group.add_argument(
        "--home",
        type=namespace,
        metavar="NAMESPACE",
        help="home namespace, which also holds the Lease; default: the namespace of the pod or "
        "context",
    )
    group.add_argument(
        "--identity", default="", help="name of this replica; default: the name of its pod"
    )
    group.add_argument(
        "--drain",
        type=seconds_from("0s"),
        default="20s",
        metavar="DURATION",
        help="after SIGTERM, time for phases that cannot be resumed; default: %(default)s",
    )


def _add_report_arguments(group: Any) -> None:
    add_tracing_argument(group)
    repeated(
        group,
        "--notify",
        type=_origin,
        metavar="ORIGIN",
        help="allowed receiver of failure notices, such as https://hooks.example.org; may be "
        "repeated; default: none",
    )
    group.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="default: %(default)s"
    )
    group.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="default: %(default)s",
    )
    group.add_argument("--host", default="127.0.0.1", help="address of the endpoint and the pages")
    group.add_argument(
        "--port",
        type=port,
        default=_PORT,
        help="port of the endpoint and the pages, 0 for a free one; default: %(default)s",
    )
    switch(
        group,
        "--open-endpoint",
        help="require no token from clients on this machine; others always need one",
    )
    group.add_argument(
        "--health-host", default="127.0.0.1", metavar="HOST", help="address of health and metrics"
    )
    group.add_argument(
        "--health-port",
        type=port,
        default=_HEALTH_PORT,
        help="port of health and metrics; default: %(default)s",
    )
    switch(group, "--no-http", help="serve neither endpoint nor health")


def run(args: argparse.Namespace) -> int:
    # A signal that arrives before the controller is ready is kept until then.
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
    webhook_socket = None
    if args.webhook_port:
        webhook_socket = stack.enter_context(listening(args.webhook_host, args.webhook_port))
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
    if webhook_socket is not None:
        server = webhook_server(args, functions, cluster, webhook_socket)
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
            # Replicas that show runs share the session key.
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
    """Collect garbage often, but exclude the objects that exist at the start.

    The objects of an ended run refer to each other, so only the collector frees their memory.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 10, 5)


def ending_of(controller: Controller, signals: StopSignals) -> int:
    """Run a controller until it is stopped; return the exit code."""
    signals.call(controller.request_stop)
    try:
        controller.run()
    except LeadershipLost:
        # The controller has logged the reason.
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
    """Return the settings from the command line and the environment of the process."""
    from secrets import token_hex

    from kanister_py.controller.controller import ControllerSettings
    from kanister_py.ports.confinement import Confinement

    home = environment.get("POD_NAMESPACE") or own_namespace or "default"
    namespaces: tuple[str, ...] = tuple(dict.fromkeys(args.namespaces)) or (home,)
    identity = (
        args.identity
        or environment.get("POD_NAME")
        or f"{socket.gethostname()}_{os.getpid()}_{token_hex(4)}"
    )
    return ControllerSettings(
        namespaces=() if args.all_namespaces else namespaces,
        home=args.home or home,
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
        addresses = socket.getaddrinfo("kubernetes.default.svc", 443, type=socket.SOCK_STREAM)
    except OSError:
        addresses = []
    return frozenset({host, *(str(address[4][0]) for address in addresses)})
