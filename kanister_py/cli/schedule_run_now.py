"""Make a Schedule run now, beside its times.

kanister-py schedule run-now nightly --wait

Makes the ActionSet of its template. Its times come as ever; where a run is under way and the
Schedule forbids another, nothing is made, unless --force.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kanister_py.cli.output import write_data
from kanister_py.core.errors import UsageError
from kanister_py.core.objects.resources import ACTION_SETS
from kanister_py.core.schedules.model import SCHEDULES

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster


class RunUnderWay(UsageError):
    """A run is under way, and its schedule forbids a second one."""

    reason = "RunUnderWay"

    def __init__(self, schedule: str, name: str) -> None:
        super().__init__(
            f"Schedule {schedule} forbids a second run while {name} is under way; "
            "wait for its end, cancel it, or use --force"
        )
        self.name = name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--force", action="store_true", help="also while a run is under way")
    parser.add_argument("--wait", action="store_true", help="follow it to its end")
    parser.add_argument("--dry-run", action="store_true", help="print it, and create nothing")
    parser.add_argument("-o", "--output", choices=("json", "yaml", "name"), default="")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    from secrets import choice

    from kanister_py.core.actionsets.creation import SCHEDULE_LABEL
    from kanister_py.core.objects.names import generate_name
    from kanister_py.core.schedules.model import ConcurrencyPolicy, parse_schedule
    from kanister_py.core.schedules.runs import read_run, run_of

    found = cluster.get(SCHEDULES, args.name, namespace=args.namespace)
    schedule = parse_schedule(found)
    if schedule.policy is ConcurrencyPolicy.FORBID and not args.force:
        selector = f"{SCHEDULE_LABEL}={args.name}"
        for each in cluster.list(ACTION_SETS, namespace=args.namespace, label_selector=selector):
            if read_run(each).is_active:
                raise RunUnderWay(args.name, each["metadata"]["name"])
    made = run_of(found, generate_name(f"{args.name[:50]}-now-", choice))
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
