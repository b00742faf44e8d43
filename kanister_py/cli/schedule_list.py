"""List Schedules: when they ran last, with which outcome, and when they run next.

kanister-py schedule list
kanister-py schedule list -A -o json
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli.connection import add_listing
from kanister_py.cli.output import Cell, Line, Tint, list_of, say, table_of_objects, write_data
from kanister_py.core.actionsets.status import parse_time
from kanister_py.core.kube.durations import whole_seconds
from kanister_py.core.kube.parts import spec_of, status_of
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.schedules.status import LAST_RUN_FAILED, trouble_of
from kanister_py.core.schedules.times import InvalidTimetable, zone_of

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject

COLOURS: Final = {"complete": "green", "failed": "red", "running": "blue"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_listing(parser)


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    from kanister_py.wiring import system_clock

    where = "" if args.all_namespaces else args.namespace
    found = cluster.list(SCHEDULES, namespace=where, label_selector=args.selector).items
    if not found and args.output in ("table", "name"):
        say(f"No Schedules {f'in namespace {where}' if where else 'in any namespace'}")
    shown = [shown_of(each) for each in found]
    now = system_clock().now()
    write_data(list_of(shown), args.output, lambda: lines_of(found, now, has_namespaces=not where))
    return 0


def shown_of(obj: KubeObject) -> KubeObject:
    """Leave out what the cluster keeps for itself."""
    metadata = {key: each for key, each in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def lines_of(found: Sequence[KubeObject], now: datetime, *, has_namespaces: bool) -> list[Line]:
    if not found:
        return []
    head = ("NAME", "SCHEDULE", "ZONE", "LAST", "STATE", "SUCCESS", "NEXT")
    where = [each["metadata"]["namespace"] for each in found] if has_namespaces else None
    return table_of_objects(head, [_row(each, now) for each in found], where)


def _row(obj: KubeObject, now: datetime) -> list[Cell]:
    spec, status = spec_of(obj), status_of(obj)
    state = str(status.get("lastState") or "")
    return [
        obj["metadata"]["name"],
        str(spec.get("schedule") or ""),
        str(spec.get("timeZone") or "UTC"),
        ago(status.get("lastScheduleTime"), now),
        Tint(state, COLOURS.get(state, "dim")) if state else "",
        ago(status.get("lastSuccessfulTime"), now),
        next_of(obj, now),
    ]


def next_of(obj: KubeObject, now: datetime) -> Cell:
    """Say when a Schedule runs next, or why it does not."""
    if spec_of(obj).get("suspend"):
        return Tint("suspended", "yellow")
    trouble = trouble_of(obj)
    # A schedule whose last run failed runs again at its next time.
    if trouble and trouble.get("reason") != LAST_RUN_FAILED:
        return Tint(str(trouble.get("reason")), "red")
    status = status_of(obj)
    if status.get("waitingTime"):
        return Tint("waits", "yellow")
    times = status.get("nextTimes") or [""]
    return in_zone(times[0], spec_of(obj).get("timeZone") or "", now)


def in_zone(text: str, zone_name: str, now: datetime) -> str:
    """Show a time as clocks of a time zone do, and how far off it is."""
    time = parse_time(text)
    if time is None:
        return ""
    try:
        local = time.astimezone(zone_of(zone_name))
    except InvalidTimetable:
        local = time
    left = (time - now).total_seconds()
    when = f"in {whole_seconds(left)}" if left >= 0 else f"{whole_seconds(-left)} ago"
    return f"{local:%a %Y-%m-%d %H:%M:%S %Z} ({when})"


def ago(text: Any, now: datetime) -> str:
    """Say how long ago something was."""
    time = parse_time(text)
    return "" if time is None else f"{whole_seconds((now - time).total_seconds())} ago"
