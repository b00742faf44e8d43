"""Publish the functions and their versions over HTTP: for programs, and as a page for people.

kanister-py serve
kanister-py serve --host 0.0.0.0 --port 8640

Bound to this machine alone unless told otherwise. Ends with 0 when it is stopped, by
Ctrl-C as by SIGTERM: that is how a server ends.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kanister_py.cli.listening import is_loopback, listening
from kanister_py.cli.output import say, say_warning
from kanister_py.cli.parser import port

if TYPE_CHECKING:
    import uvicorn

    from kanister_py.http_api.discovery import Publication

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
    parser.add_argument("--access-log", action="store_true", help="log every request")


def run(args: argparse.Namespace) -> int:
    publication = _publication()
    # The port is taken before the work is done: two servers on one port is the commoner mistake.
    with listening(args.host, args.port) as taken:
        import uvicorn

        from kanister_py.http_api.app import build_app
        from kanister_py.http_api.guard import OwnHosts
        from kanister_py.http_api.server import server_config

        routes = build_app(publication)
        app = OwnHosts(routes) if is_loopback(taken) else routes
        url = _url_of(taken)
        if not is_loopback(taken):
            say_warning(
                f"{url} can be reached from other machines; it is read only, and asks nobody "
                "who they are"
            )
        _set_up_log(args.log_format)
        config = server_config(app, access_log=args.access_log, grace_seconds=_GRACE_SECONDS)
        with _stopping(uvicorn.Server(config)) as server:
            # Whoever reads this may stop it right away.
            say(f"Serving {len(publication.registry)} functions on {url}")
            server.run(sockets=[taken])
    return 0


def _publication() -> Publication:
    """Gather what is published. A mismatch between the record and the code stops here."""
    from importlib.resources import files

    from kanister_py.functions.builtin import read_versions_file
    from kanister_py.http_api.discovery import Publication
    from kanister_py.wiring import check_everything, read_functions

    functions = check_everything(read_functions())
    for broken in functions.broken:
        say_warning(broken.message)
    text = read_versions_file()
    schema = files("kanister_py").joinpath("versions.schema.json").read_text(encoding="utf-8")
    left_out = tuple(broken.plugin for broken in functions.broken)
    return Publication(functions.registry, functions.release, text, schema, left_out)


def _url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


@contextmanager
def _stopping(server: uvicorn.Server) -> Iterator[uvicorn.Server]:
    """Have a server stop when a signal says so; requests under way are answered first."""

    def stop(_signal: int, _frame: Any) -> None:
        server.should_exit = True

    # The server catches both while it runs, and raises them again afterwards: they come here,
    # so that the process ends in good order and not by the signal.
    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield server
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _set_up_log(form: str) -> None:
    import json
    import logging

    class JsonFormatter(logging.Formatter):
        """One JSON object a line."""

        def format(self, record: logging.LogRecord) -> str:
            line = {
                "time": self.formatTime(record),
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": record.getMessage(),
            }
            if record.exc_info:
                line["traceback"] = self.formatException(record.exc_info)
            return json.dumps(line, ensure_ascii=False)

    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("uvicorn.access").setLevel(logging.INFO)
