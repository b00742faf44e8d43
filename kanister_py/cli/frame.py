"""Display of a run in a limited number of terminal lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

from kanister_py.cli.output import Cell, Line, Tint, padded, text_of, width_of
from kanister_py.core.actionsets.status import (
    CANCEL_ASKED,
    ActionStatus,
    Moved,
    PhaseStatus,
    State,
    Status,
)
from kanister_py.core.kube.durations import exact_seconds, whole_seconds
from kanister_py.core.kube.quantities import in_units

Logs: TypeAlias = Mapping[tuple[str, str], str]

_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_WAITING: Final = Tint("·", "dim")
_RETRYING: Final = Tint("↻", "yellow")
_INTERRUPTED: Final = Tint("…", "yellow")
_SKIPPED: Final = Tint("-", "dim")
_COMPLETE: Final = Tint("✓", "green")
_FAILED: Final = Tint("✗", "red")
_BAR_COLUMNS: Final = 20
_BAR_FROM_WIDTH: Final = 60


class Snapshot(NamedTuple):
    """State of a run to display; `logs` has the last log line of running phases, newest last."""

    name: str
    status: Status
    start: datetime
    logs: Logs


class Row(NamedTuple):
    """A phase with its action."""

    action: ActionStatus
    phase: PhaseStatus
    is_deferred: bool

    @property
    def is_running(self) -> bool:
        return self.phase.state is State.RUNNING

    @property
    def is_to_be_retried(self) -> bool:
        return self.phase.state is State.PENDING and self.phase.retry_time is not None

    @property
    def is_waiting(self) -> bool:
        return self.phase.state is State.PENDING and self.phase.retry_time is None


def frame_of(snapshot: Snapshot, width: int, height: int, now: datetime) -> list[Line]:
    """Draw a run in progress in at most `height` lines.

    Lines may be wider than `width`; the caller cuts them. If not all phases fit, running phases
    and those that ended last are shown, and the others are counted.
    """
    rows = rows_of(snapshot.status)
    frame = [_headline(snapshot, rows, width, now)]
    headings = len(snapshot.status.actions)
    spare = height - 1 - headings - len(rows)
    if spare >= 0:
        logs = _newest_logs(snapshot.logs, spare)
        for action in snapshot.status.actions:
            action_rows = [row for row in rows if row.action is action]
            frame += [heading(action), *_lines(action_rows, rows, logs, width, now)]
        return frame
    if height < 2:
        return frame[:height]
    room = height - 2
    logs = _newest_logs(snapshot.logs, 1 if room > 2 else 0)
    chosen, hidden = choose_rows(rows, room - len(logs))
    frame += _lines(chosen, chosen, logs, width, now, is_alone=headings == 1)
    return [*frame, Tint(f"  … {count_of(hidden)} not shown", "dim")]


def rows_of(status: Status) -> list[Row]:
    """List the phases of all actions in order, with deferred phases last in their action."""
    rows = []
    for action in status.actions:
        rows += [Row(action, phase, is_deferred=False) for phase in action.phases]
        if action.deferred is not None:
            rows.append(Row(action, action.deferred, is_deferred=True))
    return rows


def changed_rows(before: Status | None, after: Status) -> Iterator[Row]:
    """Find the phases whose state or attempt has changed.

    Phases are compared by position, because names of phases and actions may repeat.
    """
    old = [] if before is None else rows_of(before)
    for at, row in enumerate(rows_of(after)):
        previous = _stage_of(old[at]) if at < len(old) else (State.PENDING, 0)
        if previous != _stage_of(row):
            yield row


def _stage_of(row: Row) -> tuple[State, int]:
    return row.phase.state, row.phase.attempt


def _newest_logs(logs: Logs, room: int) -> Logs:
    return dict(list(logs.items())[-room:]) if room > 0 else {}


def choose_rows(rows: Sequence[Row], room: int) -> tuple[list[Row], list[Row]]:
    """Choose at most `room` rows to show. Returns shown and hidden rows, both in order.

    Running phases come first, then failed ones, the next one, and those that ended last.
    """
    next_one = next((at for at, row in enumerate(rows) if row.is_waiting), None)
    ranks = sorted(range(len(rows)), key=lambda at: (*_rank(rows[at], is_next=at == next_one), at))
    shown_ranks = set(ranks[: max(0, room)])
    chosen = [row for at, row in enumerate(rows) if at in shown_ranks]
    return chosen, [row for at, row in enumerate(rows) if at not in shown_ranks]


def _rank(row: Row, *, is_next: bool) -> tuple[int, float]:
    phase = row.phase
    if row.is_running or row.is_to_be_retried:
        return 0, -_seconds_of(phase.start_time)
    if phase.state is State.FAILED:
        return 1, -_seconds_of(phase.completion_time)
    if is_next:
        return 2, 0.0
    if phase.state is State.COMPLETE:
        return 3, -_seconds_of(phase.completion_time)
    return 4, 0.0


def _seconds_of(time: datetime | None) -> float:
    return time.timestamp() if time is not None else 0.0


def count_of(rows: Iterable[Row]) -> str:
    """Return the number of phases in each state, as text in a fixed order."""
    counts = {"failed": 0, "running": 0, "complete": 0, "skipped": 0, "waiting": 0}
    for row in rows:
        if row.phase.state is State.FAILED:
            counts["failed"] += 1
        elif row.is_running or row.is_to_be_retried:
            counts["running"] += 1
        elif row.phase.is_skipped:
            counts["skipped"] += 1
        elif row.phase.state is State.COMPLETE:
            counts["complete"] += 1
        else:
            counts["waiting"] += 1
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count)


# The first line


def _headline(snapshot: Snapshot, rows: Sequence[Row], width: int, now: datetime) -> Line:
    status = snapshot.status
    percent = status.percent or 0
    done = sum(1 for row in rows if row.phase.state is State.COMPLETE)
    cells: list[Cell] = [Tint(_short(f"Run {snapshot.name}", max(8, width // 2)), "bold")]
    is_cancelling = status.condition(CANCEL_ASKED) is not None and not status.is_final
    if width >= _BAR_FROM_WIDTH and not is_cancelling:
        filled = percent * _BAR_COLUMNS // 100
        cells += ["  ", Tint("━" * filled, "blue"), Tint("─" * (_BAR_COLUMNS - filled), "dim")]
    took = whole_seconds((now - snapshot.start).total_seconds())
    cells.append(f"  {percent:3d}%  {done} of {len(rows)}  {took}")
    if is_cancelling:
        cells.append(Tint("  cancelling; Ctrl-C again stops at once", "yellow"))
    return cells


def heading(action: ActionStatus) -> Line:
    """Return the heading of an action, with the object that it acts on."""
    kind, namespace, target = (
        str(action.object.get(key) or "") for key in ("kind", "namespace", "name")
    )
    place = target if not namespace or kind.lower() == "namespace" else f"{namespace}/{target}"
    return [Tint(f"  {action.name}", "bold"), Tint(f"  {kind} {place}" if target else "", "dim")]


# A line for each phase


def lines_of_ended(rows: Sequence[Row], aligned_rows: Sequence[Row], width: int) -> Iterator[Line]:
    """Draw phases that have ended, in columns wide enough for `aligned_rows`."""
    for line in _lines(rows, aligned_rows, {}, width, None):
        yield _cropped(line, width)


def _lines(
    rows: Sequence[Row],
    aligned_rows: Sequence[Row],
    logs: Logs,
    width: int,
    now: datetime | None,
    *,
    is_alone: bool = True,
) -> Iterator[Line]:
    limit = max(8, width * 2 // 5)
    names = [_short(_name_of(row, is_alone=is_alone), limit) for row in aligned_rows]
    name_width = max(map(width_of, names), default=0)
    version_width = max((len(row.phase.func_version) for row in aligned_rows), default=0)
    remaining_logs = dict(logs)
    for row in rows:
        took, percent = _time_of(row, now), row.phase.percent if row.is_running else None
        if percent is not None:
            took = f"{percent:>6}%  {took}{_moved(row.phase.moved)}"
        yield [
            "    ",
            _mark_of(row, now),
            " ",
            *padded(_short(_name_of(row, is_alone=is_alone), limit), name_width),
            Tint(f"  {row.phase.func_version:<{version_width}}", "dim"),
            f"  {took:>7}",
            *_notes_of(row, now),
        ]
        # Removed, because phases with the same name share their log lines.
        log = (
            remaining_logs.pop((row.action.name, row.phase.name), None) if row.is_running else None
        )
        if log:
            yield Tint(f"      │ {log}", "dim")


def _moved(moved: Moved) -> str:
    if not moved.all_bytes:
        return ""
    sizes = f"{in_units(moved.done_bytes)} of {in_units(moved.all_bytes)}"
    return f"  {sizes}, {moved.done_files} of {moved.all_files} files"


def _short(text: str, limit: int) -> str:
    visible_text = text_of(text)
    return visible_text if len(visible_text) <= limit else f"{visible_text[: limit - 1]}…"


def _cropped(line: Line, width: int) -> Line:
    """Cut a line to a width, with an ellipsis in place of the rest."""
    cells: list[Cell] = []
    for cell in line:
        if width_of(cell) > width:
            text = text_of(cell)[: max(0, width - 1)] + "…"
            return [*cells, Tint(text, cell.colour) if isinstance(cell, Tint) else text]
        cells.append(cell)
        width -= width_of(cell)
    return cells


def _name_of(row: Row, *, is_alone: bool) -> str:
    return row.phase.name if is_alone else f"{row.action.name}/{row.phase.name}"


def _mark_of(row: Row, now: datetime | None) -> Tint:
    phase = row.phase
    if phase.is_skipped:
        return _SKIPPED
    if phase.state is State.COMPLETE:
        return _COMPLETE
    if phase.state is State.FAILED:
        return _FAILED
    if row.is_to_be_retried:
        return _RETRYING
    if row.is_running:
        return Tint(_SPINNER[int(now.timestamp()) % len(_SPINNER)], "blue") if now else _INTERRUPTED
    return _WAITING


def _time_of(row: Row, now: datetime | None) -> str:
    phase = row.phase
    if phase.start_time is None or phase.is_skipped or row.is_to_be_retried:
        return ""
    if row.is_running:
        return whole_seconds((now - phase.start_time).total_seconds()) if now else ""
    if phase.completion_time is None:
        return ""
    return exact_seconds((phase.completion_time - phase.start_time).total_seconds())


def _notes_of(row: Row, now: datetime | None) -> list[Cell]:
    phase = row.phase
    notes: list[Cell] = [Tint("  deferred", "dim")] if row.is_deferred else []
    if phase.is_skipped:
        notes.append(Tint("  skipped", "dim"))
    elif row.is_to_be_retried:
        assert phase.retry_time is not None
        message = f": {phase.error.message}" if phase.error is not None else ""
        if now is not None:
            seconds = math.ceil((phase.retry_time - now).total_seconds())
            retry = f"  attempt {phase.attempt + 1} in {whole_seconds(seconds)}"
            notes.append(Tint(retry, "yellow"))
        notes.append(f"  attempt {phase.attempt} failed{message}")
    else:
        if phase.attempt > 1:
            notes.append(Tint(f"  attempt {phase.attempt}", "yellow"))
        if phase.state is State.FAILED and phase.error is not None:
            notes.append(Tint(f"  {phase.error.message}", "red"))
    return notes
