"""Stop an ActionSet: phases at work are told to stop, deferred phases still run.

It ends as failed, with the reason Cancelled. One that has ended is left as it is.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kanister_py.cli.output import put
from kanister_py.cli.parser import switch
from kanister_py.executor.actionset_requests import cancel_actionset

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    switch(parser, "--wait", help="follow it to its end")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    cancel_actionset(cluster, args.namespace, args.name)
    put(f"actionset {args.name} is being cancelled")
    if args.wait:
        from kanister_py.cli.actionset_watch import follow

        return follow(cluster, args.namespace, args.name)
    return 0
