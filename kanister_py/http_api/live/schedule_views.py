"""What stands on the pages of Schedules: a list, and one with its calendar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Final

from kanister_py.core.actionsets.status import parse_time
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.objects.parts import (
    conditions_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from kanister_py.core.schedules.calendar import Day, calendar_of, planned_starts
from kanister_py.ports.overview import Runs

_MOST_SHOWN: Final = 4
_NEXT: Final = 5


def schedules_content(found: Iterable[Mapping[str, Any]], now: datetime) -> dict[str, Any]:
    """Give what the list of Schedules shows."""
    rows = [_row(each, now) for each in found]
    return {"rows": sorted(rows, key=lambda each: (each["namespace"], each["name"]))}


def _row(obj: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    spec, status = spec_of(obj), status_of(obj)
    next_time = parse_time(next(iter(status.get("nextTimes") or ()), None))
    return {
        "namespace": namespace_of(obj),
        "name": name_of(obj),
        "schedule": str(spec.get("schedule") or ""),
        "zone": str(spec.get("timeZone") or "UTC"),
        "state": "suspended" if spec.get("suspend") is True else str(status.get("lastState") or ""),
        "trouble": _trouble(obj),
        "last": parse_time(status.get("lastScheduleTime")),
        "last_good": parse_time(status.get("lastSuccessfulTime")),
        "next": next_time,
        "left": (next_time - now).total_seconds() if next_time is not None else None,
    }


def _trouble(obj: Mapping[str, Any]) -> str:
    """Say what keeps a Schedule from running."""
    for each in conditions_of(obj):
        if each.get("type") == "Ready" and each.get("status") == "False":
            return str(each.get("message") or each.get("reason") or "")
    return ""


def schedule_content(obj: Mapping[str, Any], runs: Runs, now: datetime) -> dict[str, Any]:
    """Give what the page of one Schedule shows."""
    row = _row(obj, now)
    place = (row["namespace"], row["name"])
    own = [each for each in runs.rows if (each.namespace, each.schedule) == place]
    try:
        weeks = [[_cell(day) for day in week] for week in calendar_of(obj, own, now)]
        coming = list(islice(planned_starts(obj, now), _NEXT))
    except InvalidDocument as error:
        weeks, coming = [], []
        row["trouble"] = row["trouble"] or error.message
    is_held = spec_of(obj).get("suspend") is True
    return {
        "row": row,
        "weeks": weeks,
        "coming": coming,
        "policy": str(spec_of(obj).get("concurrencyPolicy") or "Forbid"),
        "verbs": ["resume" if is_held else "suspend", "run-now"],
    }


def _cell(day: Day) -> dict[str, Any]:
    return {
        "day": day.day,
        "is_today": day.is_today,
        "runs": day.runs[-_MOST_SHOWN:],
        "more_runs": max(0, len(day.runs) - _MOST_SHOWN),
        "times": [each.strftime("%H:%M") for each in day.times[:_MOST_SHOWN]],
        "more_times": max(0, len(day.times) - _MOST_SHOWN),
    }
