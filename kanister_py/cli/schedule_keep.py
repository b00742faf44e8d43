"""Say which backups of a Schedule stay, or see what would stay, and why.

kanister-py schedule keep nightly daily=7 weekly=4 monthly=12 --dry-run
kanister-py schedule keep nightly daily=7 weekly=4 monthly=12
kanister-py schedule keep nightly --dry-run

Rules are last, hourly, daily, weekly, monthly and yearly with a number, and within with a
time such as 30d: of each of so many days that have backups, the newest stays. What no rule
wants is deleted by the action `delete` of its Blueprint; the newest of each object always
stays. --dry-run changes nothing and shows a calendar; without rules, by those that the
Schedule has.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kanister_py.cli.output import Cell, Line, Tint, put, table, write_data
from kanister_py.cli.parser import CommandLineError, pair, switch
from kanister_py.core.actionsets.creation import SCHEDULE_LABEL
from kanister_py.core.actionsets.status import text_of_time
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.deletions import plan_deletions
from kanister_py.core.schedules.model import SCHEDULES, parse_schedule
from kanister_py.core.schedules.retention import COUNTS, Keep, Verdict, judge_backups
from kanister_py.core.schedules.runs import RETENTION_LABEL, read_run

if TYPE_CHECKING:
    from datetime import tzinfo

    from kanister_py.core.schedules.model import Schedule
    from kanister_py.ports.cluster import Cluster


def rule(text: str) -> tuple[str, int | str]:
    """Read `daily=7` or `within=30d`."""
    name, value = pair(text)
    if name == "within":
        return name, value
    if name in COUNTS and value.isascii() and value.isdigit():
        return name, int(value)
    known = ", ".join(f"{each}=N" for each in COUNTS)
    raise argparse.ArgumentTypeError(f"must be one of {known}, within=30d, found {text!r}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("rules", metavar="RULE=N", type=rule, nargs="*")
    switch(parser, "--dry-run", help="show what would stay")
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    if not args.rules and not args.dry_run:
        raise CommandLineError("say what stays, such as daily=7, or give --dry-run")
    found = cluster.get(SCHEDULES, args.name, namespace=args.namespace)
    if args.rules:
        found["spec"]["keep"] = dict(args.rules)
    schedule = parse_schedule(found)
    if not args.dry_run:
        replaced = cluster.replace(found)
        keep = replaced["spec"]["keep"]
        rules = " ".join(f"{key}={value}" for key, value in keep.items())
        write_data(keep, args.output, lambda: [f"schedule {args.name} keeps {rules}"])
        return 0
    verdicts = _verdicts(args, cluster, schedule)
    data = [_as_dict(each) for each in verdicts]
    write_data(data, args.output, lambda: _calendar(verdicts, schedule.zone))
    if args.output == "table":
        stay = sum(each.stays for each in verdicts)
        put(f"{stay} of {len(verdicts)} backups stay")
    return 0


def _verdicts(args: argparse.Namespace, cluster: Cluster, schedule: Schedule) -> Sequence[Verdict]:
    from kanister_py.wiring import system_clock

    runs, deletions = (
        list(
            map(
                read_run,
                cluster.list(
                    ACTION_SETS, namespace=args.namespace, label_selector=f"{label}={args.name}"
                ),
            )
        )
        for label in (SCHEDULE_LABEL, RETENTION_LABEL)
    )
    keep, now = schedule.keep, system_clock().now()
    if keep.says_anything:
        return plan_deletions(runs, deletions, keep, schedule.zone, now).verdicts
    everything = plan_deletions(runs, deletions, Keep(last=len(runs)), schedule.zone, now)
    return judge_backups([each.backup for each in everything.verdicts], keep, schedule.zone)


def _as_dict(verdict: Verdict) -> dict[str, Any]:
    return {
        "actionSet": verdict.backup.name,
        "time": text_of_time(verdict.backup.time),
        "stays": verdict.stays,
        "reasons": list(verdict.reasons),
    }


def _calendar(verdicts: Sequence[Verdict], zone: tzinfo) -> Iterator[Line]:
    """Set backups under their months, the newest first."""
    rows: list[list[Cell]] = []
    month = ""
    for each in verdicts:
        local = each.backup.time.astimezone(zone)
        title = f"{local:%B %Y}"
        stays = Tint("stays", "green") if each.stays else Tint("goes", "red")
        rows.append(
            [
                title if title != month else "",
                f"{local:%a %d %H:%M}",
                stays,
                ", ".join(each.reasons),
                each.backup.name,
            ]
        )
        month = title
    if rows:
        yield from table(["MONTH", "DAY", "", "WHY", "ACTIONSET"], rows)
