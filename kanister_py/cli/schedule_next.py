"""Say when a Schedule runs next; or, without a cluster, when a cron line would.

kanister-py schedule next nightly
kanister-py schedule next nightly --count 20 -o json
kanister-py schedule next --cron "30 2 * * *" --time-zone Europe/Berlin --from 2026-03-28T12:00:00Z

Jitter, windows and daylight saving are in what is said: that is when ActionSets are made.
"""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kanister_py.cli.output import write_data
from kanister_py.cli.parser import CommandLineError, whole
from kanister_py.core.actionsets.status import parse_time, text_of_time
from kanister_py.core.schedules.decisions import Memory, next_starts
from kanister_py.core.schedules.model import SCHEDULES, parse_schedule
from kanister_py.core.schedules.status import situation_of
from kanister_py.core.schedules.times import parse_timetable, zone_of

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster


def moment(text: str) -> datetime:
    """Read a moment such as `2026-03-28T12:00:00Z`."""
    found = parse_time(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"must be a time such as 2026-03-28T12:00:00Z, found {text!r}"
        )
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", default="")
    parser.add_argument("--cron", default="", metavar="LINE", help="this line, without a cluster")
    parser.add_argument("--time-zone", default="", metavar="ZONE", help="of that; default: UTC")
    parser.add_argument("--from", dest="start", type=moment, metavar="TIME", help="default: now")
    parser.add_argument("--count", type=whole(1, 1000), default=5, metavar="N")
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")


def run(args: argparse.Namespace, cluster: Cluster | None) -> int:
    from kanister_py.cli.schedule_list import in_zone
    from kanister_py.wiring import system_clock

    if bool(args.name) is bool(args.cron):
        raise CommandLineError("name a Schedule, or give a cron line with --cron")
    now = system_clock().now()
    start = args.start or now
    if cluster is None:
        obj = _schedule_of(args)
    else:
        obj = cluster.get(SCHEDULES, args.name, namespace=args.namespace)
    schedule = parse_schedule(obj)
    situation = situation_of(obj, schedule, start)
    if cluster is None or args.start is not None:
        situation = situation._replace(memory=Memory(start))
    times = [text_of_time(each) for each in next_starts(situation, args.count)]
    zone = str(obj["spec"].get("timeZone") or "")
    data: dict[str, Any] = {"schedule": obj["spec"]["schedule"], "timeZone": zone or "UTC"}
    lines = [in_zone(each, zone, start) for each in times]
    none = "suspended: nothing starts" if schedule.is_suspended else "none within fifty years"
    write_data({**data, "nextTimes": times}, args.output, lambda: lines or [none])
    return 0


def _schedule_of(args: argparse.Namespace) -> dict[str, Any]:
    parse_timetable(args.cron, zone_of(args.time_zone))
    action = {"name": "any", "blueprint": "any"}
    spec: dict[str, Any] = {
        "schedule": args.cron,
        "template": {"spec": {"actions": [action]}},
    }
    if args.time_zone:
        spec["timeZone"] = args.time_zone
    return {"metadata": {"name": "line"}, "spec": spec}
