"""Overview of ActionSets: rows, filters and pages of them, and one as a timeline."""

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
_LONGEST_ERROR: Final = 200


class RunRow(NamedTuple):
    """One ActionSet, as far as a list shows it."""

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
        """Say how long it took, or has taken so far; None of one that has not begun."""
        ended = self.ended or (now if self.state == State.RUNNING else None)
        return (ended - self.created).total_seconds() if ended is not None else None

    def as_dict(self) -> dict[str, Any]:
        data = self._asdict()
        for key in ("created", "ended"):
            data[key] = data[key].isoformat() if data[key] is not None else None
        return data


def row_of(obj: Mapping[str, Any]) -> RunRow:
    """Read a row off an ActionSet, with a status of ours or of Kanister's."""
    data = read_status_data(obj) or {}
    progress = mapping_of(data.get("progress"))
    asked = maps_in(spec_of(obj), "actions")
    state = str(data.get("state") or State.PENDING)
    warnings = data.get("warnings")
    is_held = spec_of(obj).get("suspend") is True and state == State.PENDING
    return RunRow(
        intern(namespace_of(obj)),
        name_of(obj),
        SUSPENDED if is_held else intern(state),
        parse_time(metadata_of(obj).get("creationTimestamp")) or LONG_AGO,
        _names(each.get("name") for each in asked),
        _names(each.get("blueprint") for each in asked),
        ended_at(data) if state in FINAL else None,
        intern(str(progress.get("runningPhase") or "")),
        str(progress.get("percentCompleted") or ""),
        " ".join(str(mapping_of(data.get("error")).get("message") or "").split())[:_LONGEST_ERROR],
        intern(str(labels_of(obj).get(SCHEDULE_LABEL) or "")),
        len(warnings) if isinstance(warnings, list) else 0,
    )


def _names(names: Iterable[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(intern(each) for each in names if isinstance(each, str) and each))


class RunQuery(NamedTuple):
    """Filters of runs; an empty one lets all through. A page counts from one."""

    namespace: str = ""
    blueprint: str = ""
    state: str = ""
    schedule: str = ""
    age_seconds: float = 0.0
    page: int = 1


class RunPage(NamedTuple):
    """One page of the rows that were asked for, and how many there are in all."""

    rows: Sequence[RunRow]
    found: int
    pages: int


PAGE_ROWS: Final = 100


def rows_for(rows: Iterable[RunRow], query: RunQuery, now: datetime) -> list[RunRow]:
    """Give all rows that are asked for, whatever their page."""
    return [each for each in rows if _fits(each, query, now)]


def choose_rows(rows: Iterable[RunRow], query: RunQuery, now: datetime) -> RunPage:
    """Choose of rows, the newest first, those that are asked for."""
    found = rows_for(rows, query, now)
    pages = max(1, -(-len(found) // PAGE_ROWS))
    begin = (min(max(query.page, 1), pages) - 1) * PAGE_ROWS
    return RunPage(found[begin : begin + PAGE_ROWS], len(found), pages)


def _fits(row: RunRow, query: RunQuery, now: datetime) -> bool:
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
    """One phase on the time of its run: `start` and `length` are parts of the whole, 0 to 1."""

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
    """One action of a run: its phases in their order."""

    name: str
    blueprint: str
    object: str
    bars: tuple[Bar, ...]
    artifacts: tuple[str, ...]


class Timeline(NamedTuple):
    """A run from its creation to its end, or to now."""

    row: RunRow
    seconds: float
    actions: tuple[ActionLine, ...]
    warnings: tuple[Warned, ...]
    reason: str = ""
    error: str = ""
    problems: tuple[str, ...] = ()


def timeline_of(obj: Mapping[str, Any], now: datetime) -> Timeline:
    """Lay an ActionSet's phases out on the time that it took."""
    row = row_of(obj)
    try:
        status = read_status(obj) or Status()
    except KanisterError as error:
        return Timeline(row, 0.0, (), (), error.reason, error.message)
    # Times of ends are kept to the second, those of phases more exactly.
    moments = [each.completion_time for action in status.actions for each in action.every_phase()]
    last = row.ended if status.is_final else now
    end = max([row.created, *filter(None, [last, *moments])])
    actions = tuple(
        ActionLine(
            action.name,
            action.blueprint,
            _object_of(action.object),
            tuple(_bar(each, action, status, row.created, end) for each in action.every_phase()),
            tuple(sorted(action.artifacts)),
        )
        for action in status.actions
    )
    failure = status.error or RunError("")
    return Timeline(
        row,
        _seconds_between(row.created, end),
        actions,
        tuple(each for each in status.warnings if not each.phase),
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
    whole, started = _seconds_between(begin, end), phase.start_time
    ended = phase.completion_time or (end if phase.state is State.RUNNING else None)
    seconds = None
    start = length = 0.0
    if started is not None:
        start = min(max((started - begin).total_seconds() / whole, 0.0), 1.0)
        if ended is not None:
            seconds = max((ended - started).total_seconds(), 0.0)
            length = min(seconds / whole, 1.0 - start)
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
            each
            for each in status.warnings
            if (each.action, each.phase) == (action.name, phase.name)
        ),
    )


def _seconds_between(begin: datetime, end: datetime) -> float:
    return max((end - begin).total_seconds(), 0.001)
