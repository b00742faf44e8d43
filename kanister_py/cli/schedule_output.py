"""Tables, descriptions and calendars of Schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

from kanister_py.cli.actionset_output import (
    STATE_COLOURS,
    action_cells,
    actionset_table,
    object_text,
)
from kanister_py.cli.output import Cell, Line, Tint, entry_line, table, table_of_objects
from kanister_py.core.actionsets.status import parse_time, text_of_time
from kanister_py.core.kube.durations import whole_seconds
from kanister_py.core.kube.parts import maps_in, spec_of, status_of
from kanister_py.core.schedules.retention import Verdict
from kanister_py.core.schedules.status import LAST_RUN_FAILED, not_ready_condition
from kanister_py.core.schedules.times import InvalidTimetable, zone_of

if TYPE_CHECKING:
    from kanister_py.ports.cluster import KubeObject


def schedule_table(
    objects: Sequence[KubeObject], now: datetime, *, has_namespaces: bool, is_wide: bool = False
) -> list[Line]:
    """Return a table of Schedules with their last and next runs."""
    if not objects:
        return []
    head = ["NAME", "SCHEDULE", "ZONE", "LAST", "STATE", "SUCCESS", "NEXT"]
    rows = [_row(obj, now) for obj in objects]
    if is_wide:
        head += ["ACTION", "BLUEPRINT", "OBJECT"]
        rows = [
            [*row, *action_cells(_actions_of(obj))] for obj, row in zip(objects, rows, strict=True)
        ]
    namespaces = [obj["metadata"]["namespace"] for obj in objects] if has_namespaces else None
    return table_of_objects(head, rows, namespaces)


def _row(obj: KubeObject, now: datetime) -> list[Cell]:
    spec, status = spec_of(obj), status_of(obj)
    state = str(status.get("lastState") or "")
    return [
        obj["metadata"]["name"],
        str(spec.get("schedule") or ""),
        str(spec.get("timeZone") or "UTC"),
        _age(status.get("lastScheduleTime"), now),
        Tint(state, STATE_COLOURS.get(state, "dim")) if state else "",
        _age(status.get("lastSuccessfulTime"), now),
        _next_run(obj, now),
    ]


def _next_run(obj: KubeObject, now: datetime) -> Cell:
    """Return the time of the next run, or the reason why there is none."""
    if spec_of(obj).get("suspend"):
        return Tint("suspended", "yellow")
    trouble = not_ready_condition(obj)
    # A failed run does not stop its Schedule.
    if trouble and trouble.get("reason") != LAST_RUN_FAILED:
        return Tint(str(trouble.get("reason")), "red")
    status = status_of(obj)
    if status.get("waitingTime"):
        return Tint("waiting", "yellow")
    times = status.get("nextTimes") or [""]
    return local_time(times[0], spec_of(obj).get("timeZone") or "", now)


def local_time(text: str, zone_name: str, now: datetime) -> str:
    """Return a time in a time zone, with the distance from `now`."""
    time = parse_time(text)
    if time is None:
        return ""
    try:
        local = time.astimezone(zone_of(zone_name))
    except InvalidTimetable:
        local = time
    seconds = (time - now).total_seconds()
    distance = f"in {whole_seconds(seconds)}" if seconds >= 0 else f"{whole_seconds(-seconds)} ago"
    return f"{local:%a %Y-%m-%d %H:%M:%S %Z} ({distance})"


def _age(text: Any, now: datetime) -> str:
    time = parse_time(text)
    return "" if time is None else f"{whole_seconds((now - time).total_seconds())} ago"


def _actions_of(obj: KubeObject) -> Sequence[Any]:
    return maps_in(spec_of(spec_of(obj).get("template") or {}), "actions")


# describe

_OVERLAPS = {"Forbid": "skipped", "Queue": "waits for the running one"}


def describe_schedule(obj: KubeObject, runs: list[KubeObject], now: datetime) -> Iterator[Line]:
    """Return the lines of `schedule describe`."""
    spec, status = spec_of(obj), status_of(obj)
    zone = str(spec.get("timeZone") or "")
    yield entry_line("Name", f"{obj['metadata']['namespace']}/{obj['metadata']['name']}")
    yield entry_line("Schedule", f"{spec.get('schedule')} {zone or 'UTC'}")
    for action in _actions_of(obj):
        about = object_text(action.get("object") or {})
        yield entry_line("Runs", f"{action.get('name')} of {action.get('blueprint')} on {about}")
    policy = spec.get("concurrencyPolicy") or "Forbid"
    yield entry_line("Overlap", _OVERLAPS.get(policy, "replaces the running one"))
    for key, title in (("jitter", "Jitter"), ("startingDeadline", "Deadline")):
        if spec.get(key):
            yield entry_line(title, str(spec[key]))
    for window in spec.get("windows") or ():
        yield entry_line("Not in", f"{window.get('duration')} from {window.get('schedule')}")
    yield entry_line("Next", _next_run(obj, now) or "-")
    for text in (status.get("nextTimes") or [])[1:]:
        yield entry_line("", local_time(text, zone, now))
    yield entry_line("Last success", _age(status.get("lastSuccessfulTime"), now) or "never")
    if status.get("lastFailureTime"):
        fields = ("lastFailed", "lastFailureReason", "lastFailureMessage")
        failure = ": ".join(str(status[field]) for field in fields if status.get(field))
        age = _age(status["lastFailureTime"], now)
        yield entry_line("Last failure", f"{age} {failure}".rstrip())
    if trouble := not_ready_condition(obj):
        message = str(trouble.get("message") or trouble.get("reason"))
        yield entry_line("Not ready", Tint(message, "red"))
    if runs:
        newest_first = sorted(
            runs, key=lambda run: run["metadata"].get("creationTimestamp") or "", reverse=True
        )
        yield ""
        yield from actionset_table(newest_first, now, has_namespaces=False)


# keep


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Return whether a backup is kept, and by which rules, as data."""
    return {
        "actionSet": verdict.backup.name,
        "time": text_of_time(verdict.backup.time),
        "stays": verdict.stays,
        "reasons": list(verdict.reasons),
    }


def calendar(verdicts: Sequence[Verdict], zone: tzinfo) -> Iterator[Line]:
    """Return a table of backups by month, newest first, with the rules that keep them."""
    rows: list[list[Cell]] = []
    previous_month = ""
    for verdict in verdicts:
        local = verdict.backup.time.astimezone(zone)
        month = f"{local:%B %Y}"
        rows.append(
            [
                month if month != previous_month else "",
                f"{local:%a %d %H:%M}",
                Tint("kept", "green") if verdict.stays else Tint("deleted", "red"),
                ", ".join(verdict.reasons),
                verdict.backup.name,
            ]
        )
        previous_month = month
    if rows:
        yield from table(["MONTH", "DAY", "", "RULES", "ACTIONSET"], rows)
