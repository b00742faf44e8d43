"""Restore a backup: the newest of a Schedule, the newest before a time, or that of an ActionSet.

kanister-py restore nightly --wait
kanister-py restore nightly --at 2026-11-12T12:00:00Z --dry-run
kanister-py restore nightly --to StatefulSet/shop/db-copy
kanister-py restore backup-x7k2p --options point=noon

NAME is a Schedule, or a completed ActionSet with artifacts; use schedule/NAME or actionset/NAME
if both exist. The newest backup of a Schedule is restored, or the newest one before --at; --list
lists the backups. The command creates an ActionSet that runs the action `restore` of the backup's
Blueprint, with a function version that can read the artifacts. Retention does not delete the
backup while the restore runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import datetime
from secrets import choice
from typing import TYPE_CHECKING, Any, NamedTuple

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.creation import add_creation_flags, create
from kanister_py.cli.output import Cell, Line, Tint, say, table, write_data
from kanister_py.cli.parser import CommandLineError, moment, pairs, switch
from kanister_py.cli.references import object_reference
from kanister_py.core.actionsets.creation import SCHEDULE_LABEL, Order, new_actionset, set_options
from kanister_py.core.actionsets.references import parse_object_reference
from kanister_py.core.actionsets.status import text_of_time
from kanister_py.core.errors import NotFound, UsageError
from kanister_py.core.kube.durations import whole_seconds
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.deletions import target_of
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.schedules.runs import (
    RETENTION_LABEL,
    NoBackup,
    backups_among,
    choose_backup,
    read_run,
)
from kanister_py.executor.choose_reader import choose_reader
from kanister_py.executor.read_blueprints import read_blueprints
from kanister_py.wiring import read_functions, system_clock

if TYPE_CHECKING:
    from kanister_py.core.schedules.runs import Run
    from kanister_py.ports.cluster import Cluster, KubeObject


class RestoreUnclear(UsageError, reason="RestoreUnclear"):
    """A name that is ambiguous or unknown, or a restore that lacks something."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of a Schedule or an ActionSet")
    parser.add_argument(
        "-n", "--namespace", default="", help="default: the namespace of the context"
    )
    add_connection(parser)
    backup = parser.add_argument_group("backup")
    backup.add_argument(
        "--at",
        type=moment,
        metavar="TIME",
        help="use the newest backup that is not newer than this time",
    )
    switch(backup, "--list", help="list the backups, and restore nothing")
    group = parser.add_argument_group("restore")
    group.add_argument(
        "--to",
        type=object_reference,
        metavar="OBJECT",
        help="object to restore to; default: the object of the backup",
    )
    group.add_argument("-a", "--action", default="restore", help="default: %(default)s")
    group.add_argument(
        "--options",
        type=pairs,
        action="extend",
        default=[],
        metavar="KEY=VALUE,…",
        help="options of the action",
    )
    add_creation_flags(group, can_wait=True)


def run(args: argparse.Namespace) -> int:
    with open_connection(args) as cluster:
        return run_on(args, cluster)


def run_on(args: argparse.Namespace, cluster: Cluster) -> int:

    candidates = _candidates(args, cluster)
    if args.list:
        return _list(args, candidates)
    chosen = choose_backup(candidates.title, candidates.runs, candidates.deletions, args.at)
    backup = cluster.get(ACTION_SETS, chosen.name, namespace=args.namespace)
    order = Order(args.action, namespace=args.namespace, options=dict(args.options))
    actionset = new_actionset(order, backup, choice)
    _complete_actions(args, cluster, backup, actionset)
    _show(chosen, actionset)
    return create(
        args, cluster, actionset, lambda created: _cancel_if_deleted(cluster, created, chosen)
    )


def _cancel_if_deleted(cluster: Cluster, created: KubeObject, chosen: Run) -> None:
    """Cancel the restore if a deletion of the backup was created in the meantime.

    A deletion looks for restores after its creation, and a restore for deletions, so that at
    least one of them finds the other.
    """
    deletions = cluster.list(
        ACTION_SETS, namespace=chosen.namespace, label_selector=RETENTION_LABEL
    )
    if any(read_run(obj).parent == chosen.name for obj in deletions):
        name = created["metadata"]["name"]
        stop = {"spec": {"cancel": True}}
        cluster.patch(ACTION_SETS, name, stop, namespace=chosen.namespace)
        raise NoBackup(f"{chosen.name} is being deleted; {name} is cancelled")


class Candidates(NamedTuple):
    """Runs that may be backups, and deletions of backups; `title` names their Schedule."""

    title: str
    runs: Sequence[Run]
    deletions: Sequence[Run]


def _candidates(args: argparse.Namespace, cluster: Cluster) -> Candidates:
    kind, slash, name = args.name.rpartition("/")
    if slash and kind not in ("schedule", "actionset"):
        raise CommandLineError(
            f"NAME must be schedule/NAME, actionset/NAME or NAME, found {args.name}"
        )
    actionset = _get(cluster, "actionset", name, args.namespace) if kind != "schedule" else None
    # Backups outlive their Schedule, so the Schedule need not exist.
    selector = f"{SCHEDULE_LABEL}={name}"
    runs = (
        cluster.list(ACTION_SETS, namespace=args.namespace, label_selector=selector).items
        if kind != "actionset"
        else []
    )
    if actionset is not None and runs:
        raise RestoreUnclear(
            f"{name} is a Schedule and an ActionSet; use schedule/{name} or actionset/{name}"
        )
    deletion_objects = cluster.list(
        ACTION_SETS, namespace=args.namespace, label_selector=RETENTION_LABEL
    ).items
    deletions = list(map(read_run, deletion_objects))
    if actionset is not None:
        return Candidates(f"ActionSet {name}", [read_run(actionset)], deletions)
    if not runs and (
        kind == "actionset" or _get(cluster, "schedule", name, args.namespace) is None
    ):
        kind_text = kind or "Schedule or ActionSet"
        raise RestoreUnclear(f"There is no {kind_text} {name} in namespace {args.namespace}")
    return Candidates(f"Schedule {name}", list(map(read_run, runs)), deletions)


def _get(cluster: Cluster, kind: str, name: str, namespace: str) -> KubeObject | None:
    try:
        resource = ACTION_SETS if kind == "actionset" else SCHEDULES
        return cluster.get(resource, name, namespace=namespace)
    except NotFound:
        return None


def _complete_actions(
    args: argparse.Namespace, cluster: Cluster, backup: KubeObject, actionset: dict[str, Any]
) -> None:
    """Set the object of each action, and the version that reads its artifacts."""
    registry, actions = read_functions().registry, actionset["spec"]["actions"]
    if args.to and len(actions) > 1:
        raise RestoreUnclear(
            f"{backup['metadata']['name']} has {len(actions)} objects, but --to names one"
        )
    blueprints = read_blueprints(cluster, backup)
    for fields in actions:
        name = str(fields["blueprint"])
        blueprint = blueprints.get(name)
        if blueprint is None:
            raise RestoreUnclear(f"There is no Blueprint {args.namespace}/{name}")
        action = blueprint.actions.get(args.action)
        if action is None:
            names = ", ".join(sorted(blueprint.actions)) or "none at all"
            raise RestoreUnclear(f"Blueprint {name} has no action {args.action}, only {names}")
        for warning in set_options(fields, blueprint, dict(args.options)):
            say(f"warning: {warning}")
        preferred = str(fields.get("preferredVersion") or "")
        version = choose_reader(
            registry, blueprint, action, fields.get("artifacts") or {}, preferred
        )
        fields.pop("preferredVersion", None)
        if version:
            fields["preferredVersion"] = version
        if args.to:
            fields["object"] = parse_object_reference(args.to, args.namespace).as_dict()
        elif fields.get("object"):
            fields["object"] = target_of(blueprint, action, fields["object"])


def _show(chosen: Run, actionset: dict[str, Any]) -> None:
    """Write to stderr which backup is restored, its time, and its target."""
    say(f"Restores {chosen.name}, of {_when(chosen.taken_at, system_clock().now())}")
    for action in actionset["spec"]["actions"]:
        about = action.get("object") or {}
        kind = about.get("kind") or about.get("resource") or "object"
        place = "/".join(filter(None, (about.get("namespace"), about.get("name"))))
        version = action.get("preferredVersion")
        suffix = f", with {version}" if version else ""
        say(f"  {action['name']} of {action['blueprint']} on {kind} {place}{suffix}")
        for name, artifact in (action.get("artifacts") or {}).items():
            values = (artifact.get("keyValue") or {}).items()
            say(f"  from {name}: " + ", ".join(f"{key}={value}" for key, value in values))


def _when(time: datetime, now: datetime) -> str:
    return f"{text_of_time(time)} ({whole_seconds((now - time).total_seconds())} ago)"


def _list(args: argparse.Namespace, candidates: Candidates) -> int:
    deleted = {deletion.parent for deletion in candidates.deletions}
    backups = sorted(
        backups_among(candidates.runs), key=lambda backup: backup.taken_at, reverse=True
    )
    data = [
        {
            "actionSet": backup.name,
            "time": text_of_time(backup.taken_at),
            "isLeaving": backup.name in deleted,
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
