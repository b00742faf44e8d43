"""List ActionSets, or print some of them.

kanister-py actionset get
kanister-py actionset get -A -l app=db
kanister-py actionset get backup-x7k2p -o yaml
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli.connection import add_listing
from kanister_py.cli.output import Cell, Line, Tint, list_of, say, table_of_objects, write_data
from kanister_py.core.actionsets.status import parse_time
from kanister_py.core.actionsets.stored_status import STATUS_ANNOTATION, read_status_data
from kanister_py.core.kube.durations import whole_seconds
from kanister_py.core.kube.parts import annotations_of
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.executor.find_namespace import NamespaceUnknown, check_namespace

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject

_COLOURS: Final = {"complete": "green", "failed": "red", "running": "blue"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help="these alone; default: all")
    add_listing(parser)


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    from kanister_py.wiring import system_clock

    where = "" if args.all_namespaces else args.namespace
    if args.names:
        found = [cluster.get(ACTION_SETS, name, namespace=args.namespace) for name in args.names]
    else:
        found = cluster.list(ACTION_SETS, namespace=where, label_selector=args.selector).items
    if not found and args.output in ("table", "name"):
        _say_nothing(cluster, where, args.selector)
    shown = [_shown(each) for each in found]
    data: Any = shown[0] if len(args.names) == 1 else list_of(shown)
    now = system_clock().now()
    write_data(data, args.output, lambda: lines_of(found, now, has_namespaces=not where))
    return 0


def _say_nothing(cluster: Cluster, namespace: str, selector: str) -> None:
    """Say that nothing was found, and where: an empty answer looks like one that got lost."""
    where = f"in namespace {namespace}" if namespace else "in any namespace"
    say(f"No ActionSets {where}" + (f" with labels {selector}" if selector else ""))
    if namespace:
        try:
            check_namespace(cluster, namespace)
        except NamespaceUnknown as error:
            say(error.message)


def _shown(obj: KubeObject) -> KubeObject:
    """Leave out what the cluster keeps for itself, and join a status that is stored in parts."""
    metadata = {key: each for key, each in obj["metadata"].items() if key != "managedFields"}
    status = read_status_data(obj)
    notes = {key: each for key, each in annotations_of(obj).items() if key != STATUS_ANNOTATION}
    if "annotations" in metadata:
        metadata["annotations"] = notes
    return {**obj, "metadata": metadata, **({"status": status} if status is not None else {})}


def lines_of(found: Sequence[KubeObject], now: datetime, *, has_namespaces: bool) -> list[Line]:
    """Set ActionSets in a table, with how far each is."""
    if not found:
        return []
    head = ["NAME", "STATE", "PROGRESS", "PHASE", "WARNINGS", "AGE", "ERROR"]
    rows = [_row(each, now) for each in found]
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    where = [each["metadata"]["namespace"] for each in found] if has_namespaces else None
    return table_of_objects(head, rows, where)


def _row(obj: KubeObject, now: datetime) -> list[Cell]:
    status = read_status_data(obj) or {}
    progress, error = status.get("progress") or {}, status.get("error") or {}
    state = str(status.get("state") or "pending")
    percent = progress.get("percentCompleted")
    created = parse_time(obj["metadata"].get("creationTimestamp"))
    warnings = sorted({str(each.get("reason")) for each in status.get("warnings") or ()})
    return [
        obj["metadata"]["name"],
        Tint(state, _COLOURS.get(state, "dim")),
        f"{percent}%" if percent else "",
        str(progress.get("runningPhase") or ""),
        ", ".join(warnings),
        whole_seconds((now - created).total_seconds()) if created is not None else "",
        " ".join(str(error.get("message") or "").split())[:100],
    ]
