"""Let a Schedule start nothing, or let it run again.

kanister-py schedule suspend nightly
kanister-py schedule resume nightly

A run that is under way goes on. What falls into the pause is not made up for.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kanister_py.cli.output import list_of, write_data
from kanister_py.executor.schedule_requests import suspend_schedule

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+")
    parser.add_argument("-o", "--output", choices=("json", "yaml"), default="")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    from kanister_py.cli.schedule_list import shown_of

    is_suspended = args.verb == "suspend"
    done = "suspended" if is_suspended else "resumed"
    changed = [
        suspend_schedule(cluster, args.namespace, name, is_suspended=is_suspended)
        for name in args.names
    ]
    shown = [shown_of(each) for each in changed]
    data = shown[0] if len(shown) == 1 else list_of(shown)
    write_data(data, args.output, lambda: [f"schedule {name} {done}" for name in args.names])
    return 0
