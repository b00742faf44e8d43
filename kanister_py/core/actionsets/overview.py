"""Overview of ActionSets: rows, filters and pages, and the timeline of one ActionSet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from sys import intern
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.creation import SCHEDULE_LABEL
from kanister_py.core.actionsets.status import (
    FINAL,
    LONG_AGO,
    ActionStatus,
    PhaseStatus,
    RunError,
    State,
    Status,
    Warned,
    parse_time,
)
from kanister_py.core.actionsets.stored_status import ended_at, read_status, read_status_data
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.parts import (
    labels_of,
    mapping_of,
    maps_in,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
)

SUSPENDED: Final = "suspended"
STATES: Final = ("running", "pending", SUSPENDED, "failed", "complete")
_MAX_ERROR_CHARACTERS: Final = 200


class RunRow(NamedTuple):
    """ActionSet as a row of a list."""

    namespace: str
    name: str
    state: str
    created: datetime
    actions: tuple[str, ...] = ()
    blueprints: tuple[str, ...] = ()
    ended: datetime | None = None
    phase: str = ""
    percent: str = ""
    error: str = ""
    schedule: str = ""
    warnings: int = 0

    def seconds(self, now: datetime) -> float | None:
        """Return the time from creation to the end, or to `now` if the run is in progress.

        None if it has not begun, or if its end is unknown.
        """
        ended = self.ended or (now if self.state == State.RUNNING else None)
        return (ended - self.created).total_seconds() if ended is not None else None

    def as_dict(self) -> dict[str, Any]:
        data = self._asdict()
        for key in ("created", "ended"):
            data[key] = data[key].isoformat() if data[key] is not None else None
        return data


def row_of(obj: Mapping[str, Any]) -> RunRow:
    """Build the row of an ActionSet with a status of this project or of Kanister."""
    data = read_status_data(obj) or {}
    progress = mapping_of(data.get("progress"))
    actions = maps_in(spec_of(obj), "actions")
    state = str(data.get("state") or State.PENDING)
    warnings = data.get("warnings")
    is_suspended = spec_of(obj).get("suspend") is True and state == State.PENDING
    return RunRow(
        intern(namespace_of(obj)),
        name_of(obj),
        SUSPENDED if is_suspended else intern(state),
        parse_time(metadata_of(obj).get("creationTimestamp")) or LONG_AGO,
        _names(action.get("name") for action in actions),
        _names(action.get("blueprint") for action in actions),
        ended_at(data) if state in FINAL else None,
        intern(str(progress.get("runningPhase") or "")),
        str(progress.get("percentCompleted") or ""),
        " ".join(str(mapping_of(data.get("error")).get("message") or "").split())[
            :_MAX_ERROR_CHARACTERS
        ],
        intern(str(labels_of(obj).get(SCHEDULE_LABEL) or "")),
        len(warnings) if isinstance(warnings, list) else 0,
    )


def _names(names: Iterable[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(intern(name) for name in names if isinstance(name, str) and name))


class RunQuery(NamedTuple):
    """Filters of runs; empty fields match all. Pages count from one.

    `age_seconds` excludes older runs, except runs that have not ended.
    """

    namespace: str = ""
    blueprint: str = ""
    state: str = ""
    schedule: str = ""
    age_seconds: float = 0.0
    page: int = 1


class RunPage(NamedTuple):
    """Page of the matching rows. `total` is the number of matches on all pages."""

    rows: Sequence[RunRow]
    total: int
    pages: int


PAGE_ROWS: Final = 100


def matching_rows(rows: Iterable[RunRow], query: RunQuery, now: datetime) -> list[RunRow]:
    """Return all rows that match the query, without paging."""
    return [row for row in rows if _matches(row, query, now)]


def choose_rows(rows: Iterable[RunRow], query: RunQuery, now: datetime) -> RunPage:
    """Return the requested page of the matching rows, or the nearest page that exists."""
    matches = matching_rows(rows, query, now)
    pages = max(1, -(-len(matches) // PAGE_ROWS))
    begin = (min(max(query.page, 1), pages) - 1) * PAGE_ROWS
    return RunPage(matches[begin : begin + PAGE_ROWS], len(matches), pages)


def _matches(row: RunRow, query: RunQuery, now: datetime) -> bool:
    return (
        (not query.namespace or row.namespace == query.namespace)
        and (not query.state or row.state == query.state)
        and (not query.blueprint or query.blueprint in row.blueprints)
        and (not query.schedule or row.schedule == query.schedule)
        and (
            not query.age_seconds
            or (now - row.created).total_seconds() <= query.age_seconds
            or row.ended is None
        )
    )


# One run


class Bar(NamedTuple):
    """Phase on a timeline. `start` and `length` are fractions of the duration of the run."""

    name: str
    state: str
    version: str
    attempt: int
    start: float
    length: float
    seconds: float | None
    is_deferred: bool = False
    is_skipped: bool = False
    percent: int | None = None
    waits_until: datetime | None = None
    error: str = ""
    warnings: tuple[Warned, ...] = ()


class ActionLine(NamedTuple):
    """Action on a timeline, with its phases in order."""

    name: str
    blueprint: str
    object: str
    bars: tuple[Bar, ...]
    artifacts: tuple[str, ...]


class Timeline(NamedTuple):
    """Timeline of a run from its creation to its end, or to now."""

    row: RunRow
    seconds: float
    actions: tuple[ActionLine, ...]
    warnings: tuple[Warned, ...]
    reason: str = ""
    error: str = ""
    problems: tuple[str, ...] = ()


def timeline_of(obj: Mapping[str, Any], now: datetime) -> Timeline:
    """Build the timeline of an ActionSet."""
    row = row_of(obj)
    try:
        status = read_status(obj) or Status()
    except KanisterError as error:
        return Timeline(row, 0.0, (), (), error.reason, error.message)
    # The end of the run is stored in whole seconds, so a phase can appear to end after it.
    moments = [phase.completion_time for action in status.actions for phase in action.every_phase()]
    last = row.ended if status.is_final else now
    end = max([row.created, *filter(None, [last, *moments])])
    actions = tuple(
        ActionLine(
            action.name,
            action.blueprint,
            _object_of(action.object),
            tuple(_bar(phase, action, status, row.created, end) for phase in action.every_phase()),
            tuple(sorted(action.artifacts)),
        )
        for action in status.actions
    )
    failure = status.error or RunError("")
    return Timeline(
        row,
        _seconds_between(row.created, end),
        actions,
        tuple(warning for warning in status.warnings if not warning.phase),
        failure.reason,
        failure.message,
        failure.problems,
    )


def _object_of(reference: Mapping[str, Any]) -> str:
    kind = reference.get("kind") or reference.get("resource") or ""
    where = f"{reference['namespace']}/" if reference.get("namespace") else ""
    name = reference.get("name") or ""
    return f"{kind} {where}{name}".strip()


def _bar(
    phase: PhaseStatus, action: ActionStatus, status: Status, begin: datetime, end: datetime
) -> Bar:
    duration, started = _seconds_between(begin, end), phase.start_time
    ended = phase.completion_time or (end if phase.state is State.RUNNING else None)
    seconds = None
    start = length = 0.0
    if started is not None:
        start = min(max((started - begin).total_seconds() / duration, 0.0), 1.0)
        if ended is not None:
            seconds = max((ended - started).total_seconds(), 0.0)
            length = min(seconds / duration, 1.0 - start)
    return Bar(
        phase.name,
        str(phase.state),
        phase.func_version,
        phase.attempt,
        start,
        length,
        seconds,
        is_deferred=phase is action.deferred,
        is_skipped=phase.is_skipped,
        percent=phase.percent if phase.state is State.RUNNING else None,
        waits_until=phase.retry_time if phase.state is State.PENDING else None,
        error=phase.error.message if phase.error is not None else "",
        warnings=tuple(
            warning
            for warning in status.warnings
            if (warning.action, warning.phase) == (action.name, phase.name)
        ),
    )


def _seconds_between(begin: datetime, end: datetime) -> float:
    return max((end - begin).total_seconds(), 0.001)
