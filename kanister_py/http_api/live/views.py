"""Contents of the live pages: runs and Schedules as data for templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from kanister_py.core.actionsets.overview import (
    STATES,
    RunPage,
    RunQuery,
    RunRow,
    Timeline,
    choose_rows,
)
from kanister_py.core.actionsets.status import FINAL, parse_time
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.kube.durations import exact_seconds
from kanister_py.core.kube.parts import (
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from kanister_py.core.kube.printable import printable
from kanister_py.core.schedules.calendar import Day, calendar_of, planned_starts
from kanister_py.core.schedules.status import trouble_of
from kanister_py.http_api import page as page_package
from kanister_py.http_api.page import security_headers
from kanister_py.ports.overview import Runs

AGES: Final[Mapping[str, tuple[str, float]]] = {
    "1h": ("the last hour", 3600.0),
    "24h": ("the last day", 86_400.0),
    "7d": ("the last week", 604_800.0),
    "30d": ("the last 30 days", 2_592_000.0),
}

_VERBS: Final[Mapping[str, Sequence[str]]] = {"failed": ("retry",), "complete": ()}
_MOST_OF_A_DAY: Final = 4
_STARTS_SHOWN: Final = 5


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": printable,
        "span": exact_seconds,
        "moment": _moment,
        "day": _day,
    }
    environment.filters["twice"] = lambda value: (value, value)
    return environment


def asset(file: str) -> tuple[str, bytes]:
    """Give a file that the pages refer to, and what it is."""
    where = files(page_package if file == "page.css" else __package__)
    media_type = "text/css" if file.endswith(".css") else "text/javascript"
    return f"{media_type}; charset=utf-8", where.joinpath(file).read_bytes()


@lru_cache(maxsize=1)
def page_headers() -> dict[str, str]:
    """Give the headers that let a browser load what is ours, and nothing that stands in a page."""
    ours = ("style-src", "script-src", "connect-src", "form-action")
    # A form says where it comes from only where a page may say so.
    headers = security_headers(**dict.fromkeys(ours, "'self'"))
    return {**headers, "referrer-policy": "same-origin"}


def page(template: str, **content: Any) -> bytes:
    """Write a page, or a part of one."""
    return _environment().get_template(template).render(**content).encode()


def query_of(asked: Mapping[str, str]) -> RunQuery:
    """Read the query of an address; values that make no sense count as none."""
    number = asked.get("page", "")
    age = AGES.get(asked.get("age", ""))
    return RunQuery(
        namespace=asked.get("namespace", ""),
        blueprint=asked.get("blueprint", ""),
        state=asked["state"] if asked.get("state") in STATES else "",
        schedule=asked.get("schedule", ""),
        age_seconds=age[1] if age is not None else 0.0,
        page=int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 1,
    )


def runs_content(runs: Runs, asked: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """Give what the list of runs shows."""
    query = query_of(asked)
    # Who may see one namespace does not learn how much runs in the others.
    there = [each for each in runs.rows if query.namespace in ("", each.namespace)]
    chosen: RunPage = choose_rows(there, query, now)
    kept = {key: each for key, each in asked.items() if each and key != "page"}
    number = min(max(query.page, 1), chosen.pages)
    return {
        "rows": [_run_row(each, now) for each in chosen.rows],
        "found": chosen.found,
        "all": len(there),
        "trouble": runs.trouble,
        "number": number,
        "pages": chosen.pages,
        "before": _address(kept, number - 1) if number > 1 else "",
        "after": _address(kept, number + 1) if number < chosen.pages else "",
        "asked": {
            key: asked.get(key, "")
            for key in ("namespace", "blueprint", "state", "schedule", "age")
        },
        "here": _address(kept, number),
    }


def choices_of(runs: Runs, namespace: str) -> dict[str, Any]:
    """Give what can be chosen from in the form over the list."""
    rows = [each for each in runs.rows if not namespace or each.namespace == namespace]
    return {
        "namespaces": sorted({each.namespace for each in rows}),
        "blueprints": _sorted(name for each in rows for name in each.blueprints),
        "schedules": _sorted(each.schedule for each in rows),
        "states": STATES,
        "ages": {key: each[0] for key, each in AGES.items()},
    }


def _sorted(names: Iterable[str]) -> Sequence[str]:
    return sorted({each for each in names if each})


def _address(kept: Mapping[str, str], number: int) -> str:
    asked = dict(kept) if number == 1 else {**kept, "page": str(number)}
    return f"/runs?{urlencode(asked)}" if asked else "/runs"


def _run_row(row: RunRow, now: datetime) -> dict[str, Any]:
    return {**row._asdict(), "seconds": row.seconds(now)}


def run_content(timeline: Timeline, now: datetime, form_key: str) -> dict[str, Any]:
    """Give what the page of one run shows."""
    row = timeline.row
    return {
        "run": timeline,
        "row": _run_row(row, now),
        "is_final": row.state in FINAL,
        "verbs": _VERBS.get(row.state, ("cancel",)),
        "form_key": form_key,
    }


def _moment(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _day(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


# Schedules


def schedules_content(found: Iterable[Mapping[str, Any]], now: datetime) -> dict[str, Any]:
    """Give what the list of Schedules shows."""
    rows = [_schedule_row(each, now) for each in found]
    return {"rows": sorted(rows, key=lambda each: (each["namespace"], each["name"]))}


def _schedule_row(obj: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    spec, status, trouble = spec_of(obj), status_of(obj), trouble_of(obj)
    next_time = parse_time(next(iter(status.get("nextTimes") or ()), None))
    return {
        "namespace": namespace_of(obj),
        "name": name_of(obj),
        "schedule": str(spec.get("schedule") or ""),
        "zone": str(spec.get("timeZone") or "UTC"),
        "state": "suspended" if spec.get("suspend") is True else str(status.get("lastState") or ""),
        "trouble": str(trouble.get("message") or trouble.get("reason") or ""),
        "last": parse_time(status.get("lastScheduleTime")),
        "last_good": parse_time(status.get("lastSuccessfulTime")),
        "next": next_time,
        "left": (next_time - now).total_seconds() if next_time is not None else None,
    }


def schedule_content(obj: Mapping[str, Any], runs: Runs, now: datetime) -> dict[str, Any]:
    """Give what the page of one Schedule shows."""
    row = _schedule_row(obj, now)
    place = (row["namespace"], row["name"])
    own = [each for each in runs.rows if (each.namespace, each.schedule) == place]
    try:
        weeks = [[_cell(day) for day in week] for week in calendar_of(obj, own, now)]
        coming = list(islice(planned_starts(obj, now), _STARTS_SHOWN))
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
        "runs": day.runs[-_MOST_OF_A_DAY:],
        "more_runs": max(0, len(day.runs) - _MOST_OF_A_DAY),
        "times": [each.strftime("%H:%M") for each in day.times[:_MOST_OF_A_DAY]],
        "more_times": max(0, len(day.times) - _MOST_OF_A_DAY),
    }
