"""Serve a composition function over gRPC, for Crossplane or whoever else calls it.

kanister-py function serve function-auto-ready --insecure
kanister-py function serve acme.functions:Bucket --tls-certs-dir /tls/server
kanister-py function serve --insecure -- ./bucket.sh --fast

A class is one with `run`, a request in and a response out. A program gets the request as
JSON on stdin and writes the response as JSON on stdout. Both versions of the protocol,
health and reflection are served; callers must show a certificate of the same CA, unless
--insecure is given. SIGTERM lets the calls under way end.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanister_py.cli.function_targets import megabytes, target_of
from kanister_py.cli.output import say, say_warning
from kanister_py.cli.parser import CommandLineError, port, whole

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
    parser.add_argument(
        "--insecure", action="store_true", help="serve in the clear, to whoever calls"
    )
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
        help="how many calls are answered at the same time; default: %(default)s",
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
    parser.add_argument("--debug", action="store_true", help="log every call")


def run(args: argparse.Namespace) -> int:
    if not args.target and not args.command:
        raise CommandLineError(
            "Name a function of the registry, a module:Class, or a program after --"
        )
    target = target_of(args.target, args.command)
    if target.is_remote:
        raise CommandLineError(f"{target.title} is an address; it is served already")
    settings = _settings(args)
    _set_up_log(args.debug)
    answer = _answering(target.revision)
    from kanister_py.grpc_api.server import FunctionServer

    server = FunctionServer(answer, settings)
    stopped = threading.Event()
    before = {
        each: signal.signal(each, lambda *_: stopped.set())
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        server.start()
        how = "in the clear" if settings.certificates is None else "with TLS"
        host = settings.address.rpartition(":")[0]
        say(f"Serving {target.title} on {host}:{server.port} {how}")
        stopped.wait()
        say("Stopping; calls under way are answered first")
        server.stop()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    return 0


def _answering(revision: Any) -> Any:
    """Make what answers requests, and load a class now: later, nobody would see that it fails."""
    from kanister_py.core.compositions.endpoints import EXEC, scheme_of
    from kanister_py.executor.calling import load_python_function
    from kanister_py.ports.function_runner import FunctionCall
    from kanister_py.wiring import function_runner, read_functions

    registry = read_functions().registry
    runner = function_runner(registry)
    if scheme_of(revision.endpoint) != EXEC:
        load_python_function(revision.endpoint, registry)
    return lambda request: runner.run(FunctionCall("", revision, request))


def _settings(args: argparse.Namespace) -> ServerSettings:
    from kanister_py.grpc_api.certificates import ServerCertificates
    from kanister_py.grpc_api.server import ServerSettings

    folder = args.tls_certs_dir
    if folder is None and os.environ.get(_CERTIFICATES):
        folder = Path(os.environ[_CERTIFICATES])
    if folder is None and not args.insecure:
        raise CommandLineError(
            "Name the certificates with --tls-certs-dir or "
            f"{_CERTIFICATES}, or serve in the clear with --insecure"
        )
    certificates = None if args.insecure else ServerCertificates(folder)
    host = args.host or ("127.0.0.1" if args.insecure else "0.0.0.0")  # noqa: S104 - functions are called from other pods, and callers must show a certificate
    if args.insecure and host not in ("127.0.0.1", "localhost", "::1"):
        say_warning(f"{host} can be reached from other machines, and nobody is asked who they are")
    shown = f"[{host}]" if ":" in host else host
    return ServerSettings(
        f"{shown}:{args.port}",
        certificates,
        limit_bytes=args.max_message_size,
        grace_seconds=args.grace,
        workers=args.workers,
        observe=_metrics(args.metrics_port, host) if args.metrics_port is not None else None,
    )


def _metrics(metrics_port: int, host: str) -> Any:
    from kanister_py.core.errors import AddressUnavailable
    from kanister_py.grpc_api.metrics import ServerMetrics

    metrics = ServerMetrics()
    try:
        bound = metrics.serve(metrics_port, host)
    except OSError as error:
        raise AddressUnavailable(host, metrics_port, error.strerror or str(error)) from None
    say(f"Metrics on {host}:{bound}")
    return metrics.observe


def _set_up_log(debug: bool) -> None:
    import logging
    import sys

    logging.basicConfig(
        level=logging.DEBUG if debug else logging.WARNING,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        force=True,
    )
