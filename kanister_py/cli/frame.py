"""Picture of a run at one moment, in no more lines than there is room for."""

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
_WAITS: Final = Tint("·", "dim")
_RETRIES: Final = Tint("↻", "yellow")
_LEFT: Final = Tint("…", "yellow")
_SKIPPED: Final = Tint("-", "dim")
_COMPLETE: Final = Tint("✓", "green")
_FAILED: Final = Tint("✗", "red")
_BAR_COLUMNS: Final = 20
_BAR_FROM_WIDTH: Final = 60


class Moment(NamedTuple):
    """State of a run at one moment; `logs` has the last line of phases at work, the newest last."""

    name: str
    status: Status
    began: datetime
    logs: Logs


class Row(NamedTuple):
    """A phase with its action."""

    action: ActionStatus
    phase: PhaseStatus
    is_deferred: bool

    @property
    def is_at_work(self) -> bool:
        return self.phase.state is State.RUNNING

    @property
    def is_to_be_retried(self) -> bool:
        return self.phase.state is State.PENDING and self.phase.retry_time is not None

    @property
    def is_waiting(self) -> bool:
        return self.phase.state is State.PENDING and self.phase.retry_time is None


def frame_of(seen: Moment, width: int, height: int, now: datetime) -> list[Line]:
    """Draw a run while it is under way, in no more lines than there are.

    Lines may be too wide: what draws them cuts them. What does not fit is counted: what is
    at work and what ended last comes first.
    """
    rows = rows_of(seen.status)
    frame = [_headline(seen, rows, width, now)]
    headings = len(seen.status.actions)
    spare = height - 1 - headings - len(rows)
    if spare >= 0:
        logs = _newest_logs(seen.logs, spare)
        for action in seen.status.actions:
            own = [each for each in rows if each.action is action]
            frame += [heading(action), *_lines(own, rows, logs, width, now)]
        return frame
    if height < 2:
        return frame[:height]
    room = height - 2
    logs = _newest_logs(seen.logs, 1 if room > 2 else 0)
    chosen, hidden = choose_rows(rows, room - len(logs))
    frame += _lines(chosen, chosen, logs, width, now, is_alone=headings == 1)
    return [*frame, Tint(f"  … {count_of(hidden)} not shown", "dim")]


def rows_of(status: Status) -> list[Row]:
    """List the phases of all actions in their order, each action's deferred phase last."""
    found = []
    for action in status.actions:
        found += [Row(action, phase, is_deferred=False) for phase in action.phases]
        if action.deferred is not None:
            found.append(Row(action, action.deferred, is_deferred=True))
    return found


def changed_rows(before: Status | None, after: Status) -> Iterator[Row]:
    """Find the phases that have another state, or are in another attempt, than before.

    They go by their place: two phases, and two actions, may have the same name.
    """
    old = [] if before is None else rows_of(before)
    for at, row in enumerate(rows_of(after)):
        was = _stage_of(old[at]) if at < len(old) else (State.PENDING, 0)
        if was != _stage_of(row):
            yield row


def _stage_of(row: Row) -> tuple[State, int]:
    return row.phase.state, row.phase.attempt


def _newest_logs(logs: Logs, room: int) -> Logs:
    return dict(list(logs.items())[-room:]) if room > 0 else {}


def choose_rows(rows: Sequence[Row], room: int) -> tuple[list[Row], list[Row]]:
    """Choose what to show where not all fits, and what to hide, both in their order.

    First what is at work, then failures, what comes next, and what ended last.
    """
    next_one = next((at for at, each in enumerate(rows) if each.is_waiting), None)
    ranks = sorted(range(len(rows)), key=lambda at: (*_rank(rows[at], is_next=at == next_one), at))
    taken = set(ranks[: max(0, room)])
    chosen = [each for at, each in enumerate(rows) if at in taken]
    return chosen, [each for at, each in enumerate(rows) if at not in taken]


def _rank(row: Row, *, is_next: bool) -> tuple[int, float]:
    phase = row.phase
    if row.is_at_work or row.is_to_be_retried:
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
    """Count phases by how far they are, in a fixed order."""
    counts = {"failed": 0, "under way": 0, "complete": 0, "skipped": 0, "waiting": 0}
    for row in rows:
        if row.phase.state is State.FAILED:
            counts["failed"] += 1
        elif row.is_at_work or row.is_to_be_retried:
            counts["under way"] += 1
        elif row.phase.is_skipped:
            counts["skipped"] += 1
        elif row.phase.state is State.COMPLETE:
            counts["complete"] += 1
        else:
            counts["waiting"] += 1
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


# The first line


def _headline(seen: Moment, rows: Sequence[Row], width: int, now: datetime) -> Line:
    status = seen.status
    percent = status.percent or 0
    done = sum(1 for each in rows if each.phase.state is State.COMPLETE)
    cells: list[Cell] = [Tint(_short(f"Run {seen.name}", max(8, width // 2)), "bold")]
    is_cancelling = status.condition(CANCEL_ASKED) is not None and not status.is_final
    if width >= _BAR_FROM_WIDTH and not is_cancelling:
        filled = percent * _BAR_COLUMNS // 100
        cells += ["  ", Tint("━" * filled, "blue"), Tint("─" * (_BAR_COLUMNS - filled), "dim")]
    took = whole_seconds((now - seen.began).total_seconds())
    cells.append(f"  {percent:3d}%  {done} of {len(rows)}  {took}")
    if is_cancelling:
        cells.append(Tint("  cancelling; Ctrl-C again stops at once", "yellow"))
    return cells


def heading(action: ActionStatus) -> Line:
    """Name an action and what it acts on."""
    kind, namespace, target = (
        str(action.object.get(key) or "") for key in ("kind", "namespace", "name")
    )
    place = target if not namespace or kind.lower() == "namespace" else f"{namespace}/{target}"
    return [Tint(f"  {action.name}", "bold"), Tint(f"  {kind} {place}" if target else "", "dim")]


# A line for each phase


def lines_of_ended(rows: Sequence[Row], alike: Sequence[Row], width: int) -> Iterator[Line]:
    """Draw phases that have ended, in the columns that `alike` needs."""
    for line in _lines(rows, alike, {}, width, None):
        yield _cropped(line, width)


def _lines(
    rows: Sequence[Row],
    alike: Sequence[Row],
    logs: Logs,
    width: int,
    now: datetime | None,
    *,
    is_alone: bool = True,
) -> Iterator[Line]:
    most = max(8, width * 2 // 5)
    names = [_short(_name_of(each, is_alone=is_alone), most) for each in alike]
    name_width = max(map(width_of, names), default=0)
    version_width = max((len(each.phase.func_version) for each in alike), default=0)
    left = dict(logs)
    for row in rows:
        took, percent = _time_of(row, now), row.phase.percent if row.is_at_work else None
        if percent is not None:
            took = f"{percent:>6}%  {took}{_moved(row.phase.moved)}"
        yield [
            "    ",
            _mark_of(row, now),
            " ",
            *padded(_short(_name_of(row, is_alone=is_alone), most), name_width),
            Tint(f"  {row.phase.func_version:<{version_width}}", "dim"),
            f"  {took:>7}",
            *_notes_of(row, now),
        ]
        # Once: phases of one name share what is known of them.
        log = left.pop((row.action.name, row.phase.name), None) if row.is_at_work else None
        if log:
            yield Tint(f"      │ {log}", "dim")


def _moved(moved: Moved) -> str:
    if not moved.all_bytes:
        return ""
    sizes = f"{in_units(moved.done_bytes)} of {in_units(moved.all_bytes)}"
    return f"  {sizes}, {moved.done_files} of {moved.all_files} files"


def _short(text: str, most: int) -> str:
    seen = text_of(text)
    return seen if len(seen) <= most else f"{seen[: most - 1]}…"


def _cropped(line: Line, width: int) -> Line:
    """Cut off what is too wide for a terminal; what is cut off shows as an ellipsis."""
    kept: list[Cell] = []
    for cell in line:
        if width_of(cell) > width:
            text = text_of(cell)[: max(0, width - 1)] + "…"
            return [*kept, Tint(text, cell.colour) if isinstance(cell, Tint) else text]
        kept.append(cell)
        width -= width_of(cell)
    return kept


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
        return _RETRIES
    if row.is_at_work:
        return Tint(_SPINNER[int(now.timestamp()) % len(_SPINNER)], "blue") if now else _LEFT
    return _WAITS


def _time_of(row: Row, now: datetime | None) -> str:
    phase = row.phase
    if phase.start_time is None or phase.is_skipped or row.is_to_be_retried:
        return ""
    if row.is_at_work:
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
        why = f": {phase.error.message}" if phase.error is not None else ""
        if now is not None:
            seconds = math.ceil((phase.retry_time - now).total_seconds())
            again = f"  attempt {phase.attempt + 1} in {whole_seconds(seconds)}"
            notes.append(Tint(again, "yellow"))
        notes.append(f"  attempt {phase.attempt} failed{why}")
    else:
        if phase.attempt > 1:
            notes.append(Tint(f"  attempt {phase.attempt}", "yellow"))
        if phase.state is State.FAILED and phase.error is not None:
            notes.append(Tint(f"  {phase.error.message}", "red"))
    return notes
