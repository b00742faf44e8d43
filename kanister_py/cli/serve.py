"""Publish the functions and their versions over HTTP: for programs, and as a page for people.

kanister-py serve
kanister-py serve --host 0.0.0.0 --port 8640

Bound to this machine alone unless told otherwise. Ends with 0 when it is stopped, by
Ctrl-C as by SIGTERM: that is how a server ends.
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
        "--host", default=DEFAULT_HOST, help="the address to listen on; default: %(default)s"
    )
    parser.add_argument(
        "--port",
        type=port,
        default=DEFAULT_PORT,
        help="the port to listen on, 0 for any that is free; default: %(default)s",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="how the log on stderr is written; default: %(default)s",
    )
    switch(parser, "--access-log", help="log every request")


def run(args: argparse.Namespace) -> int:
    from kanister_py.cli.installed import installed_functions, publication_of

    publication = publication_of(installed_functions(is_checked=True))
    # The port is taken before the work is done: two servers on one port is the commoner mistake.
    with listening(args.host, args.port) as taken:
        import logging

        import uvicorn

        from kanister_py.controller.machine.logs import set_up_logging
        from kanister_py.http_api.app import build_app
        from kanister_py.http_api.guard import LocalHostsOnly
        from kanister_py.http_api.server import server_config

        routes = build_app(publication)
        app = LocalHostsOnly(routes) if is_loopback(taken) else routes
        url = _url_of(taken)
        if not is_loopback(taken):
            say_warning(
                f"{url} can be reached from other machines; it is read only, and asks nobody "
                "who they are"
            )
        set_up_logging(args.log_format, sys.stderr, "warning")
        logging.getLogger("uvicorn.access").setLevel(logging.INFO)
        config = server_config(app, access_log=args.access_log, grace_seconds=_GRACE_SECONDS)
        server = uvicorn.Server(config)

        def stop(_name: str) -> None:
            server.should_exit = True

        # The server stops at signals by itself once it runs, and raises them again afterwards:
        # they end here, so that the process ends in good order and not by the signal.
        with StopSignals() as signals:
            signals.call(stop)
            # Who reads this may stop it right away.
            say(f"Serving {len(publication.registry)} functions on {url}")
            server.run(sockets=[taken])
    return 0


def _url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
