"""Serve a composition function over gRPC, for Crossplane or any other caller.

kanister-py function serve function-auto-ready --insecure
kanister-py function serve acme.functions:Bucket --tls-certs-dir /tls/server
kanister-py function serve --insecure -- ./bucket.sh --fast

A class is one with `run`, a request in and a response out. A program gets the request as
JSON on stdin and writes the response as JSON on stdout. Both versions of the protocol,
health and reflection are served; callers must show a certificate of the same CA, unless
--insecure is given. SIGTERM lets active calls end.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanister_py.cli import exit_codes
from kanister_py.cli.function_targets import Target, megabytes, target_of
from kanister_py.cli.listening import named_in_errors
from kanister_py.cli.output import say, say_warning
from kanister_py.cli.parser import CommandLineError, port, switch, whole
from kanister_py.cli.processes import Link
from kanister_py.cli.stop_signals import StopSignals

if TYPE_CHECKING:
    from kanister_py.grpc_api.server import ServerSettings

DEFAULT_PORT, DEFAULT_METRICS_PORT = 9443, 8080
_CERTIFICATES = "TLS_SERVER_CERTS_DIR"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="TARGET",
        nargs="?",
        default="",
        help="a function of the registry, with @VERSION if you like, or module:Class; "
        "a program comes after --",
    )
    parser.add_argument(
        "--host",
        default="",
        help="the address to listen on; default: all of them, with --insecure this machine alone",
    )
    parser.add_argument(
        "--port",
        type=port,
        default=DEFAULT_PORT,
        help="the port to listen on, 0 for any that is free; default: %(default)s",
    )
    parser.add_argument(
        "--tls-certs-dir",
        type=Path,
        metavar="DIR",
        help=f"tls.crt, tls.key and ca.crt, read again when they change; default: ${_CERTIFICATES}",
    )
    switch(parser, "--insecure", help="serve in the clear, to any caller")
    parser.add_argument(
        "--max-message-size",
        type=megabytes,
        default=64 * 1024 * 1024,
        metavar="MB",
        help="the largest message that is taken or sent; default: 64",
    )
    parser.add_argument(
        "--workers",
        type=whole(1, 1000),
        default=16,
        help="how many threads run functions that are not coroutines; further calls wait; "
        "default: %(default)s",
    )
    parser.add_argument(
        "--metrics-port",
        type=port,
        metavar="PORT",
        help="serve Prometheus metrics there, usually 8080; default: none are served",
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=25.0,
        metavar="SECONDS",
        help="how long calls under way may take once SIGTERM has come; default: %(default)g",
    )
    parser.add_argument(
        "--processes",
        type=whole(1, 256),
        default=1,
        metavar="N",
        help="how many processes serve on the port, for callers that open many connections "
        "(Crossplane opens one per function); default: %(default)s",
    )
    switch(parser, "--debug", help="log every call")
    # What one of several processes is given by the one that starts them.
    parser.add_argument("--link", type=Link.parse, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if not args.target and not args.command:
        raise CommandLineError(
            "Name a function of the registry, a module:Class, or a program after --"
        )
    target = target_of(args.target, args.command)
    if target.is_remote:
        raise CommandLineError(f"{target.title} is an address; it is served already")
    from kanister_py.controller.machine.logs import set_up_logging

    set_up_logging("text", sys.stderr, "debug" if args.debug else "warning")
    if args.link is not None:
        return _serve(args, target)
    host = _host(args)
    if args.insecure and host not in ("127.0.0.1", "localhost", "::1"):
        say_warning(f"{host} can be reached from other machines, and nobody is asked who they are")
    return _serve(args, target) if args.processes == 1 else _serve_by_many(args, target)


def _serve(args: argparse.Namespace, target: Target) -> int:
    """Serve on this process; one of several reports to the process that has started it."""
    from kanister_py.grpc_api.server import FunctionServer
    from kanister_py.wiring import served_function

    # A signal that comes before anything is served must end this, too.
    with StopSignals() as signals:
        settings = _settings(args)
        answer = served_function(target.revision)
        host, _, number = settings.address.rpartition(":")
        with named_in_errors(host, int(number)):
            server = FunctionServer(answer, settings)
        server.start()
        if args.link is None:
            _say_serving(args, target, server.port)
            signals.wait()
            _say_stopping()
        else:
            args.link.tell_ready()
            signals.wait(None, args.link.fileno())
        if not server.stop():
            say_warning("A call was still under way after its grace; it is cut off")
            _end_now()
    return exit_codes.FINE


def _end_now() -> None:
    """End this process whatever its threads are at: none may outlive the interpreter."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_codes.FINE)


def _serve_by_many(args: argparse.Namespace, target: Target) -> int:
    from kanister_py.grpc_api.processes import JoinedMetrics, ReservedPort, ServingProcesses

    host = _host(args)
    program = ["--", *args.command] if args.command else []
    with StopSignals(signal.SIGCHLD) as signals, ExitStack() as stack:
        with named_in_errors(host, args.port):
            held = stack.enter_context(ReservedPort(host, args.port))
        processes = ServingProcesses(
            lambda link: [
                "functions",
                args.verb,
                *args.before,
                f"--link={link}:{held.port}",
                *program,
            ],
            args.processes,
            args.grace,
        )
        if args.metrics_port is not None:
            metrics = stack.enter_context(JoinedMetrics(processes))
            _serve_metrics(metrics.serve, args)
        return processes.run(
            signals.wait, lambda: _say_serving(args, target, held.port), _say_stopping
        )


def _say_serving(args: argparse.Namespace, target: Target, bound: int) -> None:
    how = "in the clear" if args.insecure else "with TLS"
    many = f" by {args.processes} processes" if args.processes > 1 else ""
    say(f"Serving {target.title}{many} on {_address(args, bound)} {how}")


def _say_stopping() -> None:
    say("Stopping; calls under way are answered first")


def _host(args: argparse.Namespace) -> str:
    return args.host or ("127.0.0.1" if args.insecure else "0.0.0.0")  # noqa: S104 - functions are called from other pods, and callers must show a certificate


def _address(args: argparse.Namespace, bound: int) -> str:
    host = _host(args)
    return f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}"


def _settings(args: argparse.Namespace) -> ServerSettings:
    from kanister_py.grpc_api.certificates import ServerCertificates
    from kanister_py.grpc_api.server import ServerSettings

    folder = args.tls_certs_dir
    if folder is None and os.environ.get(_CERTIFICATES):
        folder = Path(os.environ[_CERTIFICATES])
    if folder is None and not args.insecure:
        raise CommandLineError(
            f"Name the certificates with --tls-certs-dir or {_CERTIFICATES}, or serve in the "
            "clear with --insecure"
        )
    return ServerSettings(
        _address(args, args.link.port if args.link is not None else args.port),
        None if args.insecure else ServerCertificates(folder),
        limit_bytes=args.max_message_size,
        grace_seconds=args.grace,
        workers=args.workers,
        shares_port=args.link is not None,
        observe=_observer(args) if args.metrics_port is not None else None,
    )


def _observer(args: argparse.Namespace) -> Any:
    from kanister_py.grpc_api.metrics import ServerMetrics

    metrics = ServerMetrics()
    if args.link is None:
        _serve_metrics(metrics.serve, args)
    return metrics.observe


def _serve_metrics(serve: Callable[[int, str], int], args: argparse.Namespace) -> None:
    host = _host(args)
    with named_in_errors(host, args.metrics_port):
        bound = serve(args.metrics_port, host)
    say(f"Metrics on {host}:{bound}")
