"""Create a Schedule: when, and one action for each object that is named or selected.

kanister-py schedule create nightly --cron "0 2 * * *" --time-zone Europe/Berlin \\
    -a backup -b mysql --statefulset shop/db --profile shop/s3
kanister-py schedule create often --every 6h --jitter 10m --concurrency-policy Queue \\
    -a backup -b files --pvc shop/data --dry-run

--cron takes five fields (minute hour day month weekday), @hourly, @daily, @weekly, @monthly
or @yearly. `kanister-py schedule next --cron …` says when that would be. What it names must
be there, unless --skip-validation.
"""

from __future__ import annotations

import argparse
from secrets import choice
from typing import TYPE_CHECKING, Any

from kanister_py.cli.actionset_create import (
    add_inputs,
    add_objects,
    add_several,
    order_of,
    validate,
)
from kanister_py.cli.creation import create
from kanister_py.cli.parser import pairs, switch, whole
from kanister_py.core.actionsets.creation import new_actionset
from kanister_py.core.schedules.model import KIND, SCHEDULES, parse_schedule

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster

_MOST_KEPT = 9_999


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    when = parser.add_argument_group("when")
    times = when.add_mutually_exclusive_group(required=True)
    times.add_argument("--cron", default="", metavar="LINE", help='such as "0 2 * * *" or @daily')
    times.add_argument("--every", default="", metavar="DURATION", help="such as 6h")
    when.add_argument("--time-zone", default="", metavar="ZONE", help="default: UTC")
    when.add_argument("--jitter", default="", metavar="DURATION", help="late by up to so much")
    when.add_argument(
        "--starting-deadline", default="", metavar="DURATION", help="how late a run may begin"
    )
    when.add_argument(
        "--concurrency-policy",
        choices=("Forbid", "Replace", "Queue"),
        default="",
        help="what becomes of a time at which a run is under way; default: Forbid, left out",
    )
    switch(when, "--suspended", help="create it, but let it wait")
    parser.add_argument("-a", "--action", default="", help="which action of the Blueprint")
    parser.add_argument("-b", "--blueprint", default="", help="which Blueprint, by name")
    add_objects(parser.add_argument_group("what it acts on"))
    add_inputs(parser.add_argument_group("what it works with"))
    how = parser.add_argument_group("how it is created")
    add_several(how, "--labels", pairs, "KEY=VALUE,…", help="of the ActionSets that it makes")
    for outcome in ("complete", "failed"):
        how.add_argument(
            f"--keep-{outcome}",
            type=whole(0, _MOST_KEPT),
            metavar="N",
            help=f"how many ActionSets that are {outcome} are kept",
        )
    switch(how, "--dry-run", help="print it, and create nothing")
    switch(how, "--skip-validation", help="do not look whether what it names is there")
    how.add_argument(
        "--output", choices=("yaml", "json", "name"), help="print what was created in this form"
    )


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    actionset = new_actionset(order_of(args, cluster), None, choice)
    made = _schedule_of(args, actionset)
    parse_schedule(made)
    if not args.skip_validation:
        validate(actionset, cluster)
    return create(args, cluster, made)


def _schedule_of(args: argparse.Namespace, actionset: dict[str, Any]) -> dict[str, Any]:
    limits = {
        outcome: count
        for outcome in ("complete", "failed")
        if (count := getattr(args, f"keep_{outcome}")) is not None
    }
    fields: dict[str, Any] = {
        "schedule": args.cron or f"@every {args.every}",
        "timeZone": args.time_zone,
        "jitter": args.jitter,
        "startingDeadline": args.starting_deadline,
        "concurrencyPolicy": args.concurrency_policy,
        "suspend": args.suspended,
        "historyLimits": limits,
    }
    template: dict[str, Any] = {"spec": actionset["spec"]}
    if args.labels:
        template = {"metadata": {"labels": dict(args.labels)}, **template}
    return {
        "apiVersion": SCHEDULES.api_version,
        "kind": KIND,
        "metadata": {"name": args.name, "namespace": args.namespace},
        "spec": {**{key: each for key, each in fields.items() if each}, "template": template},
    }
