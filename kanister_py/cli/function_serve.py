"""Serve a composition function over gRPC, for Crossplane or any other caller.

kanister-py functions serve function-auto-ready --insecure
kanister-py functions serve acme.functions:Bucket --tls-certs-dir /tls/server
kanister-py functions serve --insecure -- ./bucket.sh --fast

TARGET is an installed function, or a class with `run`, which takes a request and returns a
response. If the class has several versions, the stable one is served, or the version after `@`.
A program gets the request as JSON on stdin and writes the response as JSON to stdout. The server
offers both versions of the protocol, health and reflection. Clients need a certificate of the same
CA, unless --insecure is set. After SIGTERM, active calls may end.
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
from kanister_py.cli.parser import CommandLineError, port, switch, whole_number
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
        help="an installed function such as function-auto-ready or function-auto-ready@v0.2.0, or "
        "module:Class or module:Class@v0.1.0; a program comes after --",
    )
    parser.add_argument(
        "--host",
        default="",
        help="address to listen on; default: all, with --insecure only this machine",
    )
    parser.add_argument(
        "--port",
        type=port,
        default=DEFAULT_PORT,
        help="port to listen on, 0 for a free one; default: %(default)s",
    )
    parser.add_argument(
        "--tls-certs-dir",
        type=Path,
        metavar="DIR",
        help=f"folder with tls.crt, tls.key and ca.crt, reloaded on changes; "
        f"default: ${_CERTIFICATES}",
    )
    switch(parser, "--insecure", help="serve without TLS, to any client")
    parser.add_argument(
        "--max-message-size",
        type=megabytes,
        default=64 * 1024 * 1024,
        metavar="MB",
        help="size limit of requests and responses; default: 64",
    )
    parser.add_argument(
        "--workers",
        type=whole_number(1, 1000),
        default=16,
        help="number of threads for functions that are not coroutines; further calls wait; "
        "default: %(default)s",
    )
    parser.add_argument(
        "--metrics-port",
        type=port,
        metavar="PORT",
        help="port for Prometheus metrics, usually 8080; default: no metrics",
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=25.0,
        metavar="SECONDS",
        help="time limit for active calls after SIGTERM; default: %(default)g",
    )
    parser.add_argument(
        "--processes",
        type=whole_number(1, 256),
        default=1,
        metavar="N",
        help="number of processes on the port, for clients with many connections (Crossplane "
        "opens one per function); default: %(default)s",
    )
    switch(parser, "--debug", help="log every call, and the whole traceback of an exception")
    # Passed by the parent process to each of several processes.
    parser.add_argument("--link", type=Link.parse, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if not args.target and not args.command:
        raise CommandLineError("Name an installed function, a module:Class, or a program after --")
    target = target_of(args.target, args.command)
    if target.is_remote:
        raise CommandLineError(f"{target.title} is an address of a running function")
    from kanister_py.controller.machine.logs import set_up_logging

    set_up_logging("text", sys.stderr, "debug" if args.debug else "warning")
    if args.link is not None:
        return _serve(args, target)
    host = _host(args)
    if args.insecure and host not in ("127.0.0.1", "localhost", "::1"):
        say_warning(f"{host} can be reached from other machines, and clients are not authenticated")
    return _serve(args, target) if args.processes == 1 else _serve_with_processes(args, target)


def _serve(args: argparse.Namespace, target: Target) -> int:
    """Serve in this process, and report to the parent process if there is one."""
    from kanister_py.grpc_api.server import FunctionServer
    from kanister_py.wiring import served_function

    # A signal that arrives before the server is ready must stop it, too.
    with StopSignals() as signals:
        settings = _settings(args)
        handler = served_function(target.revision)
        host, _, number = settings.address.rpartition(":")
        with named_in_errors(host, int(number)):
            server = FunctionServer(handler, settings)
        server.start()
        if args.link is None:
            _say_serving(args, target, server.port)
            signals.wait()
            _say_stopping()
        else:
            args.link.tell_ready()
            signals.wait(None, args.link.fileno())
        if not server.stop():
            say_warning("A call did not end within the grace period and was aborted")
            _end_now()
    return exit_codes.FINE


def _end_now() -> None:
    """Exit without waiting for threads, which would block the interpreter's exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_codes.FINE)


def _serve_with_processes(args: argparse.Namespace, target: Target) -> int:
    from kanister_py.grpc_api.processes import JoinedMetrics, ReservedPort, ServingProcesses

    host = _host(args)
    program = ["--", *args.command] if args.command else []
    with StopSignals(signal.SIGCHLD) as signals, ExitStack() as stack:
        with named_in_errors(host, args.port):
            reserved = stack.enter_context(ReservedPort(host, args.port))
        processes = ServingProcesses(
            lambda link: [
                "functions",
                args.verb,
                *args.before,
                f"--link={link}:{reserved.port}",
                *program,
            ],
            args.processes,
            args.grace,
        )
        if args.metrics_port is not None:
            metrics = stack.enter_context(JoinedMetrics(processes))
            _serve_metrics(metrics.serve, args)
        return processes.run(
            signals.wait, lambda: _say_serving(args, target, reserved.port), _say_stopping
        )


def _say_serving(args: argparse.Namespace, target: Target, bound: int) -> None:
    security = "without TLS" if args.insecure else "with TLS"
    processes = f" by {args.processes} processes" if args.processes > 1 else ""
    say(f"Serving {target.title}{processes} on {_address(args, bound)} {security}")


def _say_stopping() -> None:
    say("Stopping after the active calls")


def _host(args: argparse.Namespace) -> str:
    return args.host or ("127.0.0.1" if args.insecure else "0.0.0.0")  # noqa: S104 - functions are called from other pods, and clients need a certificate


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
            f"Name the folder of certificates with --tls-certs-dir or {_CERTIFICATES}, or serve "
            "without TLS with --insecure"
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
