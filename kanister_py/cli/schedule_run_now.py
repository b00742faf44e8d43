"""Make a Schedule run now, beside its times.

kanister-py schedule run-now nightly --wait

Makes the ActionSet of its template. Its times come as ever; where a run is under way and the
Schedule forbids another, nothing is made, unless --force.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kanister_py.cli.output import write_data

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--force", action="store_true", help="also while a run is under way")
    parser.add_argument("--wait", action="store_true", help="follow it to its end")
    parser.add_argument("--dry-run", action="store_true", help="print it, and create nothing")
    parser.add_argument("-o", "--output", choices=("json", "yaml", "name"), default="")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    from secrets import choice

    from kanister_py.executor.schedule_requests import write_run_now

    made = write_run_now(cluster, args.namespace, args.name, choice, force=args.force)
    name = made["metadata"]["name"]
    if args.dry_run:
        write_data(made, args.output or "yaml", lambda: [name])
        return 0
    created = cluster.create(made)
    created["metadata"].pop("managedFields", None)
    line = name if args.output == "name" else f"actionset {name} created"
    write_data(created, args.output, lambda: [line])
    if args.wait:
        from kanister_py.cli.actionset_watch import follow

        return follow(cluster, args.namespace, name)
    return 0
