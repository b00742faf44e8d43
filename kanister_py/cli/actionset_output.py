"""Tables, descriptions and log lines of ActionSets."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli.object_verbs import without_managed_fields
from kanister_py.cli.output import (
    Cell,
    Line,
    Tint,
    entry_line,
    put_printed,
    say,
    table_of_objects,
    write_text,
)
from kanister_py.cli.streams import is_read
from kanister_py.core.actionsets.creation import PARENT, RETRY_OF, SCHEDULE_LABEL
from kanister_py.core.actionsets.status import ActionStatus, PhaseStatus, Status, parse_time
from kanister_py.core.actionsets.stored_status import (
    STATUS_ANNOTATION,
    read_status,
    read_status_data,
)
from kanister_py.core.kube.durations import whole_seconds
from kanister_py.core.kube.parts import annotations_of, labels_of, maps_in, spec_of
from kanister_py.core.kube.resources import ACTION_SETS

if TYPE_CHECKING:
    import argparse

    from kanister_py.core.blueprints.model import Blueprint
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster, KubeObject
    from kanister_py.ports.phase_lines import LineSource, PrintedLine

STATE_COLOURS: Final = {"complete": "green", "failed": "red", "running": "blue"}
_ERROR_COLUMNS: Final = 100
_POLL_SECONDS: Final = 1.0


def cleaned_actionset(obj: KubeObject) -> KubeObject:
    """Return an ActionSet without managed fields; a status stored in two parts is joined."""
    cleaned = without_managed_fields(obj)
    status = read_status_data(obj)
    if "annotations" in cleaned["metadata"]:
        cleaned["metadata"]["annotations"] = {
            key: text for key, text in annotations_of(obj).items() if key != STATUS_ANNOTATION
        }
    return {**cleaned, **({"status": status} if status is not None else {})}


def actionset_table(
    objects: Sequence[KubeObject], now: datetime, *, has_namespaces: bool, is_wide: bool = False
) -> list[Line]:
    """Return a table of ActionSets with their state and progress."""
    if not objects:
        return []
    head = ["NAME", "STATE", "PROGRESS", "PHASE", "WARNINGS", "AGE"]
    rows = [_row(obj, now) for obj in objects]
    if is_wide:
        head += ["ACTION", "BLUEPRINT", "OBJECT"]
        rows = [
            [*row, *action_cells(maps_in(spec_of(obj), "actions"))]
            for obj, row in zip(objects, rows, strict=True)
        ]
    errors = [_error_of(obj, None if is_wide else _ERROR_COLUMNS) for obj in objects]
    if any(errors):
        head.append("ERROR")
        rows = [[*row, error] for row, error in zip(rows, errors, strict=True)]
    namespaces = [obj["metadata"]["namespace"] for obj in objects] if has_namespaces else None
    return table_of_objects(head, rows, namespaces)


def _row(obj: KubeObject, now: datetime) -> list[Cell]:
    status = read_status_data(obj) or {}
    progress = status.get("progress") or {}
    state = str(status.get("state") or "pending")
    percent = progress.get("percentCompleted")
    created = parse_time(obj["metadata"].get("creationTimestamp"))
    warnings = sorted({str(entry.get("reason")) for entry in status.get("warnings") or ()})
    return [
        obj["metadata"]["name"],
        Tint(state, STATE_COLOURS.get(state, "dim")),
        f"{percent}%" if percent else "",
        str(progress.get("runningPhase") or ""),
        ", ".join(warnings),
        whole_seconds((now - created).total_seconds()) if created is not None else "",
    ]


def _error_of(obj: KubeObject, columns: int | None) -> str:
    error = (read_status_data(obj) or {}).get("error") or {}
    return " ".join(str(error.get("message") or "").split())[:columns]


def action_cells(actions: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Return names of actions, of their Blueprints and of their objects, without duplicates."""
    columns = (
        [str(action.get("name") or "") for action in actions],
        [str(action.get("blueprint") or "") for action in actions],
        [object_text(action.get("object") or {}) for action in actions],
    )
    return [", ".join(dict.fromkeys(filter(None, column))) for column in columns]


def object_text(reference: Mapping[str, Any]) -> str:
    """Return a reference to an object as `Kind namespace/name`."""
    kind = reference.get("kind") or reference.get("resource") or "object"
    name = "/".join(filter(None, (reference.get("namespace"), reference.get("name"))))
    return f"{kind} {name}".rstrip()


# describe


def describe_actionset(
    obj: KubeObject, now: datetime, blueprints: Mapping[str, Blueprint]
) -> Iterator[Line]:
    """Return the lines of `actionset describe`.

    `blueprints` are the Blueprints of the ActionSet that could be read; they declare options.
    """
    metadata = obj["metadata"]
    status = read_status(obj) or Status()
    yield entry_line("Name", f"{metadata['namespace']}/{metadata['name']}")
    percent = f" ({status.percent}%)" if status.percent is not None else ""
    state = str(status.state)
    yield entry_line("State", Tint(f"{state}{percent}", STATE_COLOURS.get(state, "dim")))
    created = parse_time(metadata.get("creationTimestamp"))
    if created is not None:
        yield entry_line("Created", f"{whole_seconds((now - created).total_seconds())} ago")
    origins = (
        ("Schedule", labels_of(obj).get(SCHEDULE_LABEL)),
        ("Restored from", annotations_of(obj).get(PARENT)),
        ("Retry of", annotations_of(obj).get(RETRY_OF)),
    )
    for title, name in origins:
        if name:
            yield entry_line(title, str(name))
    actions = maps_in(spec_of(obj), "actions")
    for index, action in enumerate(actions):
        yield ""
        yield from _action_lines(action, status.actions[index : index + 1], now, blueprints)
    if status.warnings or status.error is not None:
        yield ""
    for warning in status.warnings:
        place = "/".join(filter(None, (warning.action, warning.phase)))
        yield entry_line("Warning", f"{place + ': ' if place else ''}{warning.message}")
    if status.error is not None:
        error = status.error
        place = "/".join(filter(None, (error.action, error.phase)))
        message = " ".join(error.message.split())
        yield entry_line("Error", Tint(f"{place + ': ' if place else ''}{message}", "red"))
        if error.reason:
            yield entry_line("Reason", error.reason)


def _action_lines(
    action: Mapping[str, Any],
    statuses: Sequence[ActionStatus],
    now: datetime,
    blueprints: Mapping[str, Blueprint],
) -> Iterator[Line]:
    about = object_text(action.get("object") or {})
    yield entry_line("Action", f"{action.get('name')} of {action.get('blueprint')} on {about}")
    options = action.get("options") or {}
    if options:
        yield entry_line("Options", ", ".join(f"{key}={text}" for key, text in options.items()))
    blueprint = blueprints.get(str(action.get("blueprint")))
    declaring = blueprint.actions.get(str(action.get("name"))) if blueprint is not None else None
    for name, option in declaring.options.items() if declaring is not None else ():
        yield entry_line("Option", f"{name}: {option.summary}")
    for status in statuses:
        phases = status.every_phase()
        if phases:
            head = ("  PHASE", "STATE", "VERSION", "ATTEMPT", "TOOK", "OUTPUTS")
            yield from table_of_objects(head, [_phase_row(phase, now) for phase in phases])
        for name, artifact in status.artifacts.items():
            yield entry_line("Artifact", f"{name}: {json.dumps(artifact, ensure_ascii=False)}")


def _phase_row(phase: PhaseStatus, now: datetime) -> list[Cell]:
    state = "skipped" if phase.is_skipped else str(phase.state)
    took = ""
    if phase.start_time is not None:
        took = whole_seconds(((phase.completion_time or now) - phase.start_time).total_seconds())
    return [
        f"  {phase.name}",
        Tint(state, STATE_COLOURS.get(state, "dim")),
        phase.func_version,
        str(phase.attempt or ""),
        took,
        ", ".join(phase.output.values) if phase.output is not None else "",
    ]


# logs


def print_lines(
    args: argparse.Namespace, cluster: Cluster, source: LineSource, clock: Clock
) -> int:
    """Print the log lines of an ActionSet; with --follow, until the ActionSet has ended."""
    has_lines, has_matches = False, False
    while True:
        # Read the state before the lines: all lines of an ended ActionSet are then complete.
        actionset = cluster.get(ACTION_SETS, args.name, namespace=args.namespace)
        has_ended = (read_status(actionset) or Status()).is_final
        for line in source.new_lines(actionset):
            has_lines = True
            if args.action in ("", line.action) and args.phase in ("", line.phase):
                has_matches = True
                _print_line(line, args.output)
        has_reader = is_read(sys.stdout)
        if has_ended or not (args.follow and has_reader):
            if not has_matches:
                say(_why_no_lines(args, has_ended=has_ended, has_lines=has_lines))
            return 0
        clock.sleep(_POLL_SECONDS)


def _why_no_lines(args: argparse.Namespace, *, has_ended: bool, has_lines: bool) -> str:
    if has_lines:
        filters = [("action", args.action), ("phase", args.phase)]
        places = [f"{kind} {name}" for kind, name in filters if name]
        return f"{args.name} has log lines, but none of {' and '.join(places)}"
    if not has_ended:
        return f"No phase of {args.name} has written a line yet"
    return f"No phase of {args.name} has written a line, or the lines were not kept"


def _print_line(line: PrintedLine, form: str) -> None:
    if form == "json":
        write_text(f"{json.dumps(line.as_dict(), ensure_ascii=False)}\n")
        return
    put_printed(f"{line.action}/{line.phase} | ", line.text, sys.stdout)
