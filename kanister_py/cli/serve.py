"""Publish functions and their versions over HTTP, as JSON and as a web page.

kanister-py serve
kanister-py serve --host 0.0.0.0 --port 8640

By default only this machine can connect. Exits with 0 after Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
import socket
import sys

from kanister_py.cli.listening import is_loopback, listening
from kanister_py.cli.output import say, say_warning
from kanister_py.cli.parser import port, switch
from kanister_py.cli.stop_signals import StopSignals

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8640
_GRACE_SECONDS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default=DEFAULT_HOST, help="address to listen on; default: %(default)s"
    )
    parser.add_argument(
        "--port",
        type=port,
        default=DEFAULT_PORT,
        help="port to listen on, 0 for a free one; default: %(default)s",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="format of the log on stderr; default: %(default)s",
    )
    switch(parser, "--access-log", help="log all requests")


def run(args: argparse.Namespace) -> int:
    from kanister_py.cli.installed import installed_functions, publication_of

    publication = publication_of(installed_functions(is_checked=True))
    # Open the port before the slow part: a port in use is the most common mistake.
    with listening(args.host, args.port) as listener:
        import logging

        import uvicorn

        from kanister_py.controller.machine.logs import set_up_logging
        from kanister_py.http_api.app import build_app
        from kanister_py.http_api.guard import LocalHostsOnly
        from kanister_py.http_api.server import server_config

        routes = build_app(publication)
        app = LocalHostsOnly(routes) if is_loopback(listener) else routes
        url = _url_of(listener)
        if not is_loopback(listener):
            say_warning(
                f"{url} can be reached from other machines; it is read only, and clients are not "
                "authenticated"
            )
        set_up_logging(args.log_format, sys.stderr, "warning")
        logging.getLogger("uvicorn.access").setLevel(logging.INFO)
        config = server_config(app, access_log=args.access_log, grace_seconds=_GRACE_SECONDS)
        server = uvicorn.Server(config)

        def stop(_name: str) -> None:
            server.should_exit = True

        # uvicorn stops at signals and raises them again afterwards. StopSignals receives them,
        # so that the process exits normally instead of by the signal.
        with StopSignals() as signals:
            signals.call(stop)
            # Printed when signals are handled, because a reader may stop the server at once.
            say(f"Serving {len(publication.registry)} functions on {url}")
            server.run(sockets=[listener])
    return 0


def _url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
