"""Print what the phases of an ActionSet have printed.

kanister-py actionset logs backup-x7k2p
kanister-py actionset logs backup-x7k2p --follow --phase dump
kanister-py actionset logs backup-x7k2p --server http://127.0.0.1:8640

The lines are in the log of the controller, which is read where its pods run: where its
Lease is, unless --controller-namespace says so. A controller that runs elsewhere, or whose
log you may not read, gives them out over HTTP: --server.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from kanister_py.cli.output import put_printed, say, write_text
from kanister_py.cli.parser import switch
from kanister_py.cli.streams import is_read
from kanister_py.core.actionsets.status import Status
from kanister_py.core.actionsets.stored_status import read_status
from kanister_py.core.kube.resources import ACTION_SETS

if TYPE_CHECKING:
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster
    from kanister_py.ports.phase_lines import LineSource, PrintedLine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--action", default="", help="only what this action's phases printed")
    parser.add_argument("--phase", default="", help="only what this phase printed")
    switch(parser, "--follow", help="go on until it has ended")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument(
        "--server", default="", metavar="URL", help="URL of the controller's endpoint"
    )
    parser.add_argument(
        "--server-ca",
        default="",
        metavar="FILE",
        help="authorities (PEM) of the endpoint's certificate; default: those of the system",
    )
    parser.add_argument(
        "--token-file", default="", metavar="FILE", help="token to send to --server"
    )
    parser.add_argument(
        "--controller-namespace", default="", metavar="NAMESPACE", help="where its pods are"
    )


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    from kanister_py.wiring import system_clock

    return print_lines(args, cluster, _source(args, cluster), system_clock())


def print_lines(
    args: argparse.Namespace, cluster: Cluster, source: LineSource, clock: Clock
) -> int:
    """Print the lines that a source has, and with --follow those to come."""
    has_any, has_wanted = False, False
    while True:
        # Looked at first: what was printed before the end is there once the end is.
        found = cluster.get(ACTION_SETS, args.name, namespace=args.namespace)
        is_over = (read_status(found) or Status()).is_final
        for line in source.new_lines(found):
            has_any = True
            if args.action in ("", line.action) and args.phase in ("", line.phase):
                has_wanted = True
                _print(line, args.output)
        has_reader = is_read(sys.stdout)
        if is_over or not (args.follow and has_reader):
            if not has_wanted:
                say(_why_nothing(args, is_over=is_over, has_any=has_any))
            return 0
        clock.sleep(1.0)


def _why_nothing(args: argparse.Namespace, *, is_over: bool, has_any: bool) -> str:
    if has_any:
        wanted = (("action", args.action), ("phase", args.phase))
        asked = [f"{what} {name}" for what, name in wanted if name]
        return f"No line of {args.name} is from {' and '.join(asked)}; others are"
    if not is_over:
        return f"No phase of {args.name} has written a line yet"
    return f"No phase of {args.name} has written a line, or none is kept any more"


def _source(args: argparse.Namespace, cluster: Cluster) -> LineSource:
    from kanister_py.controller.actionsets.pod_logs import LinesOfPods

    if args.server:
        from pathlib import Path

        from kanister_py.wiring import lines_of_controller

        token = Path(args.token_file).read_text(encoding="utf-8") if args.token_file else ""
        return lines_of_controller(args.server, token.strip(), args.server_ca)
    return LinesOfPods(cluster, args.controller_namespace)


def _print(line: PrintedLine, form: str) -> None:
    if form == "json":
        import json

        write_text(f"{json.dumps(line.as_dict(), ensure_ascii=False)}\n")
        return
    put_printed(f"{line.action}/{line.phase} | ", line.text, sys.stdout)
