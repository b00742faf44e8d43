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
from kanister_py.core.schedules.status import not_ready_condition
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
    """Return the media type and content of a file of the pages."""
    folder = files(page_package if file == "page.css" else __package__)
    media_type = "text/css" if file.endswith(".css") else "text/javascript"
    return f"{media_type}; charset=utf-8", folder.joinpath(file).read_bytes()


@lru_cache(maxsize=1)
def page_headers() -> dict[str, str]:
    """Return headers that allow files of this server and nothing inline."""
    own = ("style-src", "script-src", "connect-src", "form-action")
    # Browsers send the Origin of a form only with this policy.
    headers = security_headers(**dict.fromkeys(own, "'self'"))
    return {**headers, "referrer-policy": "same-origin"}


def page(template: str, **content: Any) -> bytes:
    """Render a page or a fragment."""
    return _environment().get_template(template).render(**content).encode()


def query_of(parameters: Mapping[str, str]) -> RunQuery:
    """Parse the query of a URL. Invalid values are ignored."""
    number = parameters.get("page", "")
    age = AGES.get(parameters.get("age", ""))
    return RunQuery(
        namespace=parameters.get("namespace", ""),
        blueprint=parameters.get("blueprint", ""),
        state=parameters["state"] if parameters.get("state") in STATES else "",
        schedule=parameters.get("schedule", ""),
        age_seconds=age[1] if age is not None else 0.0,
        page=int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 1,
    )


def runs_content(runs: Runs, parameters: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """Return the content of the list of runs."""
    query = query_of(parameters)
    # Users of one namespace must not learn the number of runs in other namespaces.
    visible_rows = [row for row in runs.rows if query.namespace in ("", row.namespace)]
    chosen: RunPage = choose_rows(visible_rows, query, now)
    filters = {key: value for key, value in parameters.items() if value and key != "page"}
    number = min(max(query.page, 1), chosen.pages)
    return {
        "rows": [_run_row(row, now) for row in chosen.rows],
        "found": chosen.total,
        "all": len(visible_rows),
        "trouble": runs.trouble,
        "number": number,
        "pages": chosen.pages,
        "before": _address(filters, number - 1) if number > 1 else "",
        "after": _address(filters, number + 1) if number < chosen.pages else "",
        "filters": {
            key: parameters.get(key, "")
            for key in ("namespace", "blueprint", "state", "schedule", "age")
        },
        "here": _address(filters, number),
    }


def choices_of(runs: Runs, namespace: str) -> dict[str, Any]:
    """Return the choices in the filters of the list."""
    rows = [row for row in runs.rows if not namespace or row.namespace == namespace]
    return {
        "namespaces": sorted({row.namespace for row in rows}),
        "blueprints": _sorted(name for row in rows for name in row.blueprints),
        "schedules": _sorted(row.schedule for row in rows),
        "states": STATES,
        "ages": {key: value[0] for key, value in AGES.items()},
    }


def _sorted(names: Iterable[str]) -> Sequence[str]:
    return sorted({name for name in names if name})


def _address(filters: Mapping[str, str], number: int) -> str:
    query = dict(filters) if number == 1 else {**filters, "page": str(number)}
    return f"/runs?{urlencode(query)}" if query else "/runs"


def _run_row(row: RunRow, now: datetime) -> dict[str, Any]:
    return {**row._asdict(), "seconds": row.seconds(now)}


def run_content(timeline: Timeline, now: datetime, form_key: str) -> dict[str, Any]:
    """Return the content of the page of a run."""
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


def schedules_content(schedules: Iterable[Mapping[str, Any]], now: datetime) -> dict[str, Any]:
    """Return the content of the list of Schedules."""
    rows = [_schedule_row(schedule, now) for schedule in schedules]
    return {"rows": sorted(rows, key=lambda row: (row["namespace"], row["name"]))}


def _schedule_row(obj: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    spec, status, trouble = spec_of(obj), status_of(obj), not_ready_condition(obj)
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
    """Return the content of the page of a Schedule."""
    row = _schedule_row(obj, now)
    place = (row["namespace"], row["name"])
    own = [row for row in runs.rows if (row.namespace, row.schedule) == place]
    try:
        weeks = [[_cell(day) for day in week] for week in calendar_of(obj, own, now)]
        coming = list(islice(planned_starts(obj, now), _STARTS_SHOWN))
    except InvalidDocument as error:
        weeks, coming = [], []
        row["trouble"] = row["trouble"] or error.message
    is_suspended = spec_of(obj).get("suspend") is True
    return {
        "row": row,
        "weeks": weeks,
        "coming": coming,
        "policy": str(spec_of(obj).get("concurrencyPolicy") or "Forbid"),
        "verbs": ["resume" if is_suspended else "suspend", "run-now"],
    }


def _cell(day: Day) -> dict[str, Any]:
    return {
        "day": day.day,
        "is_today": day.is_today,
        "runs": day.runs[-_MOST_OF_A_DAY:],
        "more_runs": max(0, len(day.runs) - _MOST_OF_A_DAY),
        "times": [time.strftime("%H:%M") for time in day.times[:_MOST_OF_A_DAY]],
        "more_times": max(0, len(day.times) - _MOST_OF_A_DAY),
    }
