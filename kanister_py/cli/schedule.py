"""Create, list, describe and control Schedules, which create ActionSets by time.

kanister-py schedule create nightly --cron "0 2 * * *" --time-zone Europe/Berlin \\
    -a backup -b mysql --statefulset shop/db --profile shop/s3
kanister-py schedule list -A
kanister-py schedule describe nightly
kanister-py schedule next --cron "30 2 * * 1-5" --time-zone America/New_York
kanister-py schedule run-now nightly --wait
kanister-py schedule suspend nightly
kanister-py schedule keep nightly daily=7 weekly=4 --dry-run

The controller creates exactly one ActionSet for each time. Of missed times it makes up for the
last one only, unless --starting-deadline has passed. All fields of a Schedule are described in
docs/schedules.md and by `kubectl explain schedule.spec`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from secrets import choice
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli.action_flags import (
    add_action_flags,
    add_input_flags,
    add_list_flag,
    add_object_flags,
    check_options,
    check_references,
    order_of,
)
from kanister_py.cli.connection import open_connection
from kanister_py.cli.creation import add_creation_flags, create
from kanister_py.cli.object_verbs import (
    ObjectKind,
    Verb,
    add_object_verbs,
    delete_verb,
    get_verb,
    list_verb,
    without_managed_fields,
)
from kanister_py.cli.output import list_of, put, write_data
from kanister_py.cli.parser import (
    CommandLineError,
    add_output,
    moment,
    pair,
    pairs,
    switch,
    whole_number,
)
from kanister_py.cli.schedule_output import (
    calendar,
    describe_schedule,
    local_time,
    schedule_table,
    verdict_data,
)
from kanister_py.core.actionsets.creation import SCHEDULE_LABEL, new_actionset
from kanister_py.core.actionsets.status import text_of_time
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.decisions import Memory, next_starts
from kanister_py.core.schedules.deletions import plan_deletions
from kanister_py.core.schedules.model import KIND, SCHEDULES, Schedule, parse_schedule
from kanister_py.core.schedules.retention import COUNTS, Keep, Verdict, apply_retention
from kanister_py.core.schedules.runs import RETENTION_LABEL, read_run
from kanister_py.core.schedules.status import situation_of
from kanister_py.core.schedules.times import parse_timetable, zone_of
from kanister_py.executor.schedule_requests import suspend_schedule, write_run_now
from kanister_py.wiring import system_clock

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject

_MAX_KEPT: Final = 9_999


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_object_verbs(parser, VERBS)


def run(args: argparse.Namespace) -> int:
    if args.verb == "next" and not args.name:
        return _next_of_line(args)
    with open_connection(args) as cluster:
        code: int = args.run_verb(args, cluster)
        return code


# create

_CREATE: Final = """\
Create a Schedule, with one action for each object that is named or selected.

kanister-py schedule create nightly --cron "0 2 * * *" --time-zone Europe/Berlin \\
    -a backup -b mysql --statefulset shop/db --profile shop/s3
kanister-py schedule create often --every 6h --jitter 10m --concurrency-policy Queue \\
    -a backup -b files --pvc shop/data --dry-run

--cron takes five fields (minute hour day month weekday), or @hourly, @daily, @weekly, @monthly
or @yearly; `kanister-py schedule next --cron …` prints the times. The Blueprint, the objects
and the inputs must exist, unless --skip-validation is set.
"""


def _add_create_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the Schedule")
    time_group = parser.add_argument_group("time")
    times = time_group.add_mutually_exclusive_group(required=True)
    times.add_argument("--cron", default="", metavar="LINE", help='such as "0 2 * * *" or @daily')
    times.add_argument("--every", default="", metavar="DURATION", help="such as 6h")
    time_group.add_argument("--time-zone", default="", metavar="ZONE", help="default: UTC")
    time_group.add_argument(
        "--jitter", default="", metavar="DURATION", help="delay each run by up to this time"
    )
    time_group.add_argument(
        "--starting-deadline",
        default="",
        metavar="DURATION",
        help="skip a run that could not start within this time",
    )
    time_group.add_argument(
        "--concurrency-policy",
        choices=("Forbid", "Replace", "Queue"),
        default="",
        help="at a time when the previous run has not ended: skip the new run (Forbid, the "
        "default), cancel the previous one (Replace) or wait for it (Queue)",
    )
    switch(time_group, "--suspended", help="create it suspended")
    add_action_flags(parser)
    add_object_flags(parser.add_argument_group("objects"))
    add_input_flags(parser.add_argument_group("inputs"))
    group = parser.add_argument_group("creation")
    add_list_flag(group, "--labels", pairs, "KEY=VALUE,…", help="labels of its ActionSets")
    for outcome in ("complete", "failed"):
        group.add_argument(
            f"--keep-{outcome}",
            type=whole_number(0, _MAX_KEPT),
            metavar="N",
            help=f"number of {outcome} ActionSets to keep",
        )
    add_creation_flags(group, takes_inputs=True)


def _create(args: argparse.Namespace, cluster: Cluster) -> int:
    actionset = new_actionset(order_of(args, cluster), None, choice)
    schedule = _schedule_from_flags(args, actionset)
    parse_schedule(schedule)
    if not args.skip_validation:
        check_references(actionset, cluster)
        check_options(args, cluster, actionset)
    return create(args, cluster, schedule)


def _schedule_from_flags(args: argparse.Namespace, actionset: dict[str, Any]) -> dict[str, Any]:
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
        "spec": {**{key: field for key, field in fields.items() if field}, "template": template},
    }


# describe

_DESCRIBE: Final = """\
Show a Schedule: its actions, its next times, its last success and failure, and its runs.

kanister-py schedule describe nightly
kanister-py schedule describe nightly -n shop -o yaml
"""


def _add_describe_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the Schedule")
    add_output(parser, ("table", "json", "yaml"))


def _describe(args: argparse.Namespace, cluster: Cluster) -> int:
    schedule = cluster.get(SCHEDULES, args.name, namespace=args.namespace)
    runs = _actionsets_labelled(args, cluster, SCHEDULE_LABEL)
    now = system_clock().now()
    data = without_managed_fields(schedule)
    write_data(data, args.output, lambda: describe_schedule(schedule, runs, now))
    return 0


def _actionsets_labelled(
    args: argparse.Namespace, cluster: Cluster, label: str
) -> list[KubeObject]:
    """List the ActionSets whose label names the Schedule."""
    selector = f"{label}={args.name}"
    return cluster.list(ACTION_SETS, namespace=args.namespace, label_selector=selector).items


# suspend and resume

_SUSPEND: Final = """\
Suspend Schedules: no new run starts until they are resumed. A running ActionSet continues.

kanister-py schedule suspend nightly
kanister-py schedule suspend nightly hourly
"""
_RESUME: Final = """\
Resume suspended Schedules. Times that fell into the suspension are not made up for.

kanister-py schedule resume nightly
"""


def _add_suspend_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+", help="names of Schedules")
    parser.add_argument(
        "-o",
        "--output",
        choices=("json", "yaml"),
        default="",
        help="print the changed Schedules in this format",
    )


def _suspend(args: argparse.Namespace, cluster: Cluster) -> int:
    is_suspended = args.verb == "suspend"
    outcome = "suspended" if is_suspended else "resumed"
    schedules = [
        without_managed_fields(
            suspend_schedule(cluster, args.namespace, name, is_suspended=is_suspended)
        )
        for name in args.names
    ]
    data = schedules[0] if len(schedules) == 1 else list_of(schedules)
    write_data(data, args.output, lambda: [f"schedule {name} {outcome}" for name in args.names])
    return 0


# run-now

_RUN_NOW: Final = """\
Create an ActionSet from the template of a Schedule now, in addition to its scheduled times.

kanister-py schedule run-now nightly --wait

If the Schedule forbids overlapping runs and one is running, nothing is created, unless --force
is set.
"""


def _add_run_now_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the Schedule")
    switch(parser, "--force", help="also while another run has not ended")
    add_creation_flags(parser, can_wait=True)


def _run_now(args: argparse.Namespace, cluster: Cluster) -> int:
    actionset = write_run_now(cluster, args.namespace, args.name, choice, force=args.force)
    return create(args, cluster, actionset)


# keep

_KEEP: Final = """\
Set which backups of a Schedule are kept, or show the effect of rules with --dry-run.

kanister-py schedule keep nightly daily=7 weekly=4 monthly=12 --dry-run
kanister-py schedule keep nightly daily=7 weekly=4 monthly=12
kanister-py schedule keep nightly --dry-run

A rule is last, hourly, daily, weekly, monthly or yearly with a number, or within with a
duration such as 30d. daily=7 keeps the newest backup of each of the last seven days that have
backups, and so on. Backups that no rule keeps are deleted by the action `delete` of their
Blueprint; the newest backup of each object is always kept. --dry-run changes nothing and
prints a calendar; without rules it uses those of the Schedule.
"""


def _retention_rule(text: str) -> tuple[str, int | str]:
    """Parse `daily=7` or `within=30d`."""
    name, limit = pair(text)
    if name == "within":
        return name, limit
    if name in COUNTS and limit.isascii() and limit.isdigit():
        return name, int(limit)
    rules = ", ".join(f"{count}=N" for count in COUNTS)
    raise argparse.ArgumentTypeError(f"must be one of {rules}, within=30d, found {text!r}")


def _add_keep_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the Schedule")
    parser.add_argument(
        "rules", metavar="RULE=N", type=_retention_rule, nargs="*", help="such as daily=7"
    )
    switch(parser, "--dry-run", help="show which backups would be kept")
    add_output(parser, ("table", "json", "yaml"))


def _keep(args: argparse.Namespace, cluster: Cluster) -> int:
    if not args.rules and not args.dry_run:
        raise CommandLineError("give rules such as daily=7, or --dry-run")
    obj = cluster.get(SCHEDULES, args.name, namespace=args.namespace)
    if args.rules:
        obj["spec"]["keep"] = dict(args.rules)
    schedule = parse_schedule(obj)
    if not args.dry_run:
        keep = cluster.replace(obj)["spec"]["keep"]
        rules = " ".join(f"{name}={limit}" for name, limit in keep.items())
        write_data(keep, args.output, lambda: [f"schedule {args.name} keeps {rules}"])
        return 0
    verdicts = _verdicts(args, cluster, schedule)
    data = [verdict_data(verdict) for verdict in verdicts]
    write_data(data, args.output, lambda: calendar(verdicts, schedule.zone))
    if args.output == "table":
        count = sum(verdict.stays for verdict in verdicts)
        put(f"{count} of {len(verdicts)} backups are kept")
    return 0


def _verdicts(args: argparse.Namespace, cluster: Cluster, schedule: Schedule) -> Sequence[Verdict]:
    runs, deletions = (
        [read_run(obj) for obj in _actionsets_labelled(args, cluster, label)]
        for label in (SCHEDULE_LABEL, RETENTION_LABEL)
    )
    keep, now = schedule.keep, system_clock().now()
    if keep.has_rules:
        return plan_deletions(runs, deletions, keep, schedule.zone, now).verdicts
    # Without rules nothing is deleted; the plan that keeps all runs finds the backups.
    plan = plan_deletions(runs, deletions, Keep(last=len(runs)), schedule.zone, now)
    return apply_retention([verdict.backup for verdict in plan.verdicts], keep, schedule.zone)


# next

_NEXT: Final = """\
Print the next times of a Schedule, or of a cron line without a cluster.

kanister-py schedule next nightly
kanister-py schedule next nightly --count 20 -o json
kanister-py schedule next --cron "30 2 * * *" --time-zone Europe/Berlin --from 2026-03-28T12:00:00Z

The times include jitter, windows and daylight saving: ActionSets are created at these times.
"""


def _add_next_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="name of a Schedule")
    parser.add_argument("--cron", default="", metavar="LINE", help="a cron line, without a cluster")
    parser.add_argument("--time-zone", default="", metavar="ZONE", help="for --cron; default: UTC")
    parser.add_argument("--from", dest="start", type=moment, metavar="TIME", help="default: now")
    parser.add_argument(
        "--count", type=whole_number(1, 1000), default=5, metavar="N", help="default: %(default)s"
    )
    add_output(parser, ("table", "json", "yaml"))


def _next(args: argparse.Namespace, cluster: Cluster) -> int:
    if args.cron:
        raise CommandLineError("name a Schedule, or give a cron line with --cron")
    schedule = cluster.get(SCHEDULES, args.name, namespace=args.namespace)
    return _print_next(args, schedule, forgets_past=args.start is not None)


def _next_of_line(args: argparse.Namespace) -> int:
    if not args.cron:
        raise CommandLineError("name a Schedule, or give a cron line with --cron")
    parse_timetable(args.cron, zone_of(args.time_zone))
    actions = [{"name": "any", "blueprint": "any"}]
    spec: dict[str, Any] = {"schedule": args.cron, "template": {"spec": {"actions": actions}}}
    if args.time_zone:
        spec["timeZone"] = args.time_zone
    return _print_next(args, {"metadata": {"name": "line"}, "spec": spec}, forgets_past=True)


def _print_next(args: argparse.Namespace, obj: KubeObject, *, forgets_past: bool) -> int:
    """Print the next times; `forgets_past` ignores the last run in the Schedule's status."""
    start = args.start or system_clock().now()
    schedule = parse_schedule(obj)
    situation = situation_of(obj, schedule, start)
    if forgets_past:
        situation = situation._replace(memory=Memory(start))
    times = [text_of_time(time) for time in next_starts(situation, args.count)]
    zone = str(obj["spec"].get("timeZone") or "")
    data = {"schedule": obj["spec"]["schedule"], "timeZone": zone or "UTC", "nextTimes": times}
    lines = [local_time(text, zone, start) for text in times]
    none = "none: suspended" if schedule.is_suspended else "none within fifty years"
    write_data(data, args.output, lambda: lines or [none])
    return 0


_KIND: Final = ObjectKind(
    SCHEDULES,
    "Schedule",
    "schedule",
    "nightly",
    schedule_table,
    without_managed_fields,
    "Its ActionSets and backups are not deleted, and `kanister-py restore` still finds them.",
)
VERBS: Final = (
    Verb("create", "create a Schedule from flags", _CREATE, _add_create_arguments, _create),
    list_verb(_KIND, "cron line, last run, its result, and the next run"),
    get_verb(_KIND),
    Verb(
        "describe",
        "show one with its times and runs",
        _DESCRIBE,
        _add_describe_arguments,
        _describe,
    ),
    delete_verb(_KIND),
    Verb("suspend", "start no new runs until resumed", _SUSPEND, _add_suspend_arguments, _suspend),
    Verb("resume", "start new runs again", _RESUME, _add_suspend_arguments, _suspend),
    Verb("run-now", "start one run now", _RUN_NOW, _add_run_now_arguments, _run_now),
    Verb("keep", "set or preview which backups are kept", _KEEP, _add_keep_arguments, _keep),
    Verb(
        "next", "print the next times of one, or of a cron line", _NEXT, _add_next_arguments, _next
    ),
)
