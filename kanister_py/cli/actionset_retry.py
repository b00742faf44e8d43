"""Do again what an ActionSet failed to do.

Makes a new ActionSet that says the same. What the first one completed is taken over with
its outputs; the rest runs, from the first phase that is not complete, or from the one that
--from-phase names. The first one stays as it is, and is not collected before the new one.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kanister_py.cli.output import put, write_data
from kanister_py.core.objects.resources import ACTION_SETS

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("retried", metavar="NAME")
    parser.add_argument("--from-phase", default="", metavar="PHASE", help="begin with this one")
    parser.add_argument("--name", default="", help="what the new one is called")
    parser.add_argument("--dry-run", action="store_true", help="print it, and create nothing")
    parser.add_argument("--wait", action="store_true", help="follow it to its end")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    from secrets import choice

    from kanister_py.executor.actionset_requests import write_retry

    found = cluster.get(ACTION_SETS, args.retried, namespace=args.namespace)
    made = write_retry(found, args.name, args.from_phase, choice)
    if args.dry_run:
        write_data(made, "yaml")
        return 0
    created = cluster.create(made)
    put(f"actionset {created['metadata']['name']} created")
    if args.wait:
        from kanister_py.cli.actionset_watch import follow

        return follow(cluster, args.namespace, created["metadata"]["name"])
    return 0
