"""Restore from a backup: the newest of a Schedule, that of a time, or a certain one.

kanister-py restore nightly --wait
kanister-py restore nightly --at 2026-11-12T12:00:00Z --dry-run
kanister-py restore nightly --to StatefulSet/shop/db-copy
kanister-py restore backup-x7k2p --options point=noon

NAME is a Schedule, or an ActionSet that is complete and has left artifacts; schedule/NAME or
actionset/NAME where both are there. Of a Schedule the
newest backup is taken, with --at the newest that is no younger. The ActionSet that is made
runs the action `restore` of the Blueprint that made the backup, with the version that reads
what the backup's version wrote; --list only says which backups there are. As long as it
runs, no retention deletes what it reads.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.creation import create
from kanister_py.cli.output import Cell, Line, Tint, say, table, write_data
from kanister_py.cli.parser import CommandLineError, moment, pairs, switch
from kanister_py.cli.references import object_reference
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.resources import ACTION_SETS

if TYPE_CHECKING:
    from kanister_py.core.schedules.runs import Run
    from kanister_py.ports.cluster import Cluster, KubeObject


class RestoreUnclear(UsageError, reason="RestoreUnclear"):
    """A name or a backup that could mean several things, or none."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of a Schedule or an ActionSet")
    parser.add_argument("-n", "--namespace", default="", help="default: that of the context")
    add_connection(parser)
    which = parser.add_argument_group("which backup")
    which.add_argument("--at", type=moment, metavar="TIME", help="no younger than this")
    switch(which, "--list", help="say which there are, and make nothing")
    how = parser.add_argument_group("how")
    how.add_argument("--to", type=object_reference, metavar="OBJECT", help="default: where it was")
    how.add_argument("-a", "--action", default="restore", help="default: %(default)s")
    how.add_argument("--options", type=pairs, action="extend", default=[], metavar="KEY=VALUE,…")
    switch(how, "--dry-run", help="print it, and create nothing")
    switch(how, "--wait", help="follow it to its end")
    parser.add_argument("-o", "--output", choices=("json", "yaml", "name"), default="")


def run(args: argparse.Namespace) -> int:
    with open_connection(args) as cluster:
        return run_on(args, cluster)


def run_on(args: argparse.Namespace, cluster: Cluster) -> int:
    from secrets import choice

    from kanister_py.core.actionsets.creation import Order, new_actionset
    from kanister_py.core.schedules.runs import choose_backup

    candidates = _found(args, cluster)
    if args.list:
        return _list(args, candidates)
    chosen = choose_backup(candidates.what, candidates.runs, candidates.deletions, args.at)
    backup = cluster.get(ACTION_SETS, chosen.name, namespace=args.namespace)
    order = Order(args.action, namespace=args.namespace, options=dict(args.options))
    actionset = new_actionset(order, backup, choice)
    _settle(args, cluster, backup, actionset)
    _show(chosen, actionset)
    return create(
        args, cluster, actionset, lambda created: _refuse_a_race(cluster, created, chosen)
    )


def _refuse_a_race(cluster: Cluster, created: KubeObject, chosen: Run) -> None:
    """Stop a restore of what is being deleted since it was chosen.

    A deletion looks for restores after it is made, and a restore for deletions: whichever
    came first, one of them is seen.
    """
    from kanister_py.core.schedules.runs import RETENTION_LABEL, NoBackup, read_run

    deletions = cluster.list(
        ACTION_SETS, namespace=chosen.namespace, label_selector=RETENTION_LABEL
    )
    if any(read_run(obj).parent == chosen.name for obj in deletions):
        name = created["metadata"]["name"]
        stop = {"spec": {"cancel": True}}
        cluster.patch(ACTION_SETS, name, stop, namespace=chosen.namespace)
        raise NoBackup(f"{chosen.name} is being deleted at this moment; {name} is cancelled")


class Found(NamedTuple):
    """What a name stands for, the runs that may be backups, and deletions of such."""

    what: str
    runs: Sequence[Run]
    deletions: Sequence[Run]


def _found(args: argparse.Namespace, cluster: Cluster) -> Found:
    from kanister_py.core.actionsets.creation import SCHEDULE_LABEL
    from kanister_py.core.schedules.runs import RETENTION_LABEL, read_run

    kind, slash, name = args.name.rpartition("/")
    if slash and kind not in ("schedule", "actionset"):
        raise CommandLineError(f"NAME is schedule/NAME, actionset/NAME or NAME, found {args.name}")
    actionset = _get(cluster, "actionset", name, args.namespace) if kind != "schedule" else None
    # Backups outlive their Schedule: its name is enough.
    selector = f"{SCHEDULE_LABEL}={name}"
    runs = (
        cluster.list(ACTION_SETS, namespace=args.namespace, label_selector=selector).items
        if kind != "actionset"
        else []
    )
    if actionset is not None and runs:
        raise RestoreUnclear(
            f"{name} is a Schedule and an ActionSet; say schedule/{name} or actionset/{name}"
        )
    leaving = cluster.list(
        ACTION_SETS, namespace=args.namespace, label_selector=RETENTION_LABEL
    ).items
    deletions = list(map(read_run, leaving))
    if actionset is not None:
        return Found(f"ActionSet {name}", [read_run(actionset)], deletions)
    if not runs and (
        kind == "actionset" or _get(cluster, "schedule", name, args.namespace) is None
    ):
        kind_text = kind or "Schedule or ActionSet"
        raise RestoreUnclear(f"There is no {kind_text} {name} in namespace {args.namespace}")
    return Found(f"Schedule {name}", list(map(read_run, runs)), deletions)


def _get(cluster: Cluster, kind: str, name: str, namespace: str) -> KubeObject | None:
    from kanister_py.core.errors import NotFound
    from kanister_py.core.schedules.model import SCHEDULES

    try:
        resource = ACTION_SETS if kind == "actionset" else SCHEDULES
        return cluster.get(resource, name, namespace=namespace)
    except NotFound:
        return None


def _settle(
    args: argparse.Namespace, cluster: Cluster, backup: KubeObject, made: dict[str, Any]
) -> None:
    """Say where each action restores to, and with which version it reads its artifacts."""
    from kanister_py.core.actionsets.references import parse_object_reference
    from kanister_py.core.schedules.deletions import target_of
    from kanister_py.executor.choose_reader import choose_reader
    from kanister_py.executor.read_blueprints import read_blueprints
    from kanister_py.wiring import read_functions

    registry, actions = read_functions().registry, made["spec"]["actions"]
    if args.to and len(actions) > 1:
        raise RestoreUnclear(
            f"{backup['metadata']['name']} is of {len(actions)} objects: --to names but one"
        )
    blueprints = read_blueprints(cluster, backup)
    for each in actions:
        name = str(each["blueprint"])
        blueprint = blueprints.get(name)
        if blueprint is None:
            raise RestoreUnclear(f"There is no Blueprint {args.namespace}/{name}")
        action = blueprint.actions.get(args.action)
        if action is None:
            names = ", ".join(sorted(blueprint.actions)) or "none at all"
            raise RestoreUnclear(f"Blueprint {name} has no action {args.action}, only {names}")
        preferred = str(each.get("preferredVersion") or "")
        version = choose_reader(registry, blueprint, action, each.get("artifacts") or {}, preferred)
        each.pop("preferredVersion", None)
        if version:
            each["preferredVersion"] = version
        if args.to:
            each["object"] = parse_object_reference(args.to, args.namespace).as_dict()
        elif each.get("object"):
            each["object"] = target_of(blueprint, action, each["object"])


def _show(chosen: Run, made: dict[str, Any]) -> None:
    """Say on stderr what is restored, from when, and where to."""
    from kanister_py.wiring import system_clock

    say(f"Restores {chosen.name}, of {_when(chosen.taken_at, system_clock().now())}")
    for action in made["spec"]["actions"]:
        about = action.get("object") or {}
        kind = about.get("kind") or about.get("resource") or "object"
        place = "/".join(filter(None, (about.get("namespace"), about.get("name"))))
        version = action.get("preferredVersion")
        with_what = f", with {version}" if version else ""
        say(f"  {action['name']} of {action['blueprint']} on {kind} {place}{with_what}")
        for name, artifact in (action.get("artifacts") or {}).items():
            values = (artifact.get("keyValue") or {}).items()
            say(f"  from {name}: " + ", ".join(f"{key}={value}" for key, value in values))


def _when(time: datetime, now: datetime) -> str:
    from kanister_py.core.actionsets.status import text_of_time
    from kanister_py.core.kube.durations import whole_seconds

    return f"{text_of_time(time)} ({whole_seconds((now - time).total_seconds())} ago)"


def _list(args: argparse.Namespace, found: Found) -> int:
    from kanister_py.core.actionsets.status import text_of_time
    from kanister_py.core.schedules.runs import backups_among

    leaving = {deletion.parent for deletion in found.deletions}
    backups = sorted(backups_among(found.runs), key=lambda each: each.taken_at, reverse=True)
    data = [
        {
            "actionSet": backup.name,
            "time": text_of_time(backup.taken_at),
            "isLeaving": backup.name in leaving,
        }
        for backup in backups
        if args.at is None or backup.taken_at <= args.at
    ]
    write_data(data, args.output, lambda: _lines(data))
    return 0


def _lines(data: Sequence[dict[str, Any]]) -> Iterator[Line]:
    rows: list[list[Cell]] = [
        [row["time"], row["actionSet"], Tint("is being deleted", "red")]
        if row["isLeaving"]
        else [row["time"], row["actionSet"], ""]
        for row in data
    ]
    yield from table(["TIME", "ACTIONSET", ""], rows) if rows else ["No backups"]
