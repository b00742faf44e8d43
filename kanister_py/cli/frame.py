"""What should people see of a run at one moment, on a terminal of so many columns and rows?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

from kanister_py.cli.columns import clean, cut, padded, width_of
from kanister_py.core.actionsets.status import ActionStatus, PhaseStatus, State, Status
from kanister_py.core.actionsets.transitions import CANCEL_ASKED

Paint: TypeAlias = Callable[[str, str], str]
"""Gives a text a colour; one that gives the text back unchanged makes plain lines."""

Logs: TypeAlias = Mapping[tuple[str, str], str]

_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_WAITS: Final = ("·", "dim")
_RETRIES: Final = ("↻", "yellow")
_LEFT: Final = ("…", "yellow")
_SKIPPED: Final = ("-", "dim")
_COMPLETE: Final = ("✓", "green")
_FAILED: Final = ("✗", "red")
_BAR_COLUMNS: Final = 20
_BAR_FROM_WIDTH: Final = 60


class Seen(NamedTuple):
    """A run at one moment. `logs` has the last line of phases at work, the newest last."""

    name: str
    status: Status
    began: datetime
    logs: Logs


class Line(NamedTuple):
    """A phase in its place, as far as a line tells of it."""

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


def plain(text: str, _colour: str) -> str:
    """Give a text no colour."""
    return text


def frame_of(seen: Seen, width: int, height: int, now: datetime, paint: Paint = plain) -> list[str]:
    """Draw a run while it is under way, in no more lines and columns than there are.

    What does not fit is counted: what is at work and what ended last comes first.
    """
    lines = lines_of(seen.status)
    frame = [_headline(seen, lines, width, now, paint)]
    headings = len(seen.status.actions)
    spare = height - 1 - headings - len(lines)
    if spare >= 0:
        logs = _newest_logs(seen.logs, spare)
        for action in seen.status.actions:
            frame.append(heading(action, width, paint))
            own = [each for each in lines if each.action is action]
            frame += _rows(own, lines, logs, width, now, paint)
        return frame
    if height < 2:
        return frame[:height]
    room = height - 2
    logs = _newest_logs(seen.logs, 1 if room > 2 else 0)
    shown, hidden = choose_lines(lines, room - len(logs))
    frame += _rows(shown, shown, logs, width, now, paint, is_alone=headings == 1)
    frame.append(paint(cut(f"  … {count_of(hidden)} not shown", width), "dim"))
    return frame


def lines_of(status: Status) -> list[Line]:
    """List the phases of all actions in their order, each action's deferred phase last."""
    found = []
    for action in status.actions:
        found += [Line(action, phase, is_deferred=False) for phase in action.phases]
        if action.deferred is not None:
            found.append(Line(action, action.deferred, is_deferred=True))
    return found


def _newest_logs(logs: Logs, room: int) -> Logs:
    return dict(list(logs.items())[-room:]) if room > 0 else {}


def choose_lines(lines: Sequence[Line], room: int) -> tuple[list[Line], list[Line]]:
    """Choose what to show where not all fits, and what to hide, both in their order.

    First what is at work, then failures, what comes next, and what ended last.
    """
    next_one = next((at for at, each in enumerate(lines) if each.is_waiting), None)
    ranks = sorted(
        range(len(lines)), key=lambda at: (*_rank(lines[at], is_next=at == next_one), at)
    )
    taken = set(ranks[: max(0, room)])
    shown = [each for at, each in enumerate(lines) if at in taken]
    return shown, [each for at, each in enumerate(lines) if at not in taken]


def _rank(line: Line, *, is_next: bool) -> tuple[int, float]:
    phase = line.phase
    if line.is_at_work or line.is_to_be_retried:
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


def count_of(lines: Iterable[Line]) -> str:
    """Say how many phases are how far, in a fixed order."""
    counts = {"failed": 0, "under way": 0, "complete": 0, "skipped": 0, "waiting": 0}
    for line in lines:
        if line.phase.state is State.FAILED:
            counts["failed"] += 1
        elif line.is_at_work or line.is_to_be_retried:
            counts["under way"] += 1
        elif line.phase.is_skipped:
            counts["skipped"] += 1
        elif line.phase.state is State.COMPLETE:
            counts["complete"] += 1
        else:
            counts["waiting"] += 1
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


# The first line


def _headline(seen: Seen, lines: Sequence[Line], width: int, now: datetime, paint: Paint) -> str:
    status = seen.status
    percent = status.percent or 0
    done = sum(1 for each in lines if each.phase.state is State.COMPLETE)
    cells = [(cut(f"Run {clean(seen.name)}", max(8, width // 2)), "bold")]
    is_cancelling = status.condition(CANCEL_ASKED) is not None and not status.is_final
    if width >= _BAR_FROM_WIDTH and not is_cancelling:
        filled = percent * _BAR_COLUMNS // 100
        cells += [("  " + "━" * filled, "blue"), ("─" * (_BAR_COLUMNS - filled), "dim")]
    cells += [
        (f"  {percent:3d}%", ""),
        (f"  {done} of {len(lines)}", ""),
        (f"  {whole_seconds((now - seen.began).total_seconds())}", ""),
    ]
    if is_cancelling:
        cells.append(("  cancelling; Ctrl-C again stops at once", "yellow"))
    return _joined(cells, width, paint)


def heading(action: ActionStatus, width: int, paint: Paint) -> str:
    """Name an action and what it acts on."""
    name = cut(f"  {clean(action.name)}", width)
    kind, namespace, target = (
        clean(str(action.object.get(key) or "")) for key in ("kind", "namespace", "name")
    )
    if not target:
        return paint(name, "bold")
    place = target if not namespace or kind.lower() == "namespace" else f"{namespace}/{target}"
    rest = cut(f"  {kind} {place}", width - width_of(name))
    return paint(name, "bold") + (paint(rest, "dim") if rest.strip() else "")


# A line for each phase


def rows_of(lines: Sequence[Line], alike: Sequence[Line], width: int, paint: Paint) -> list[str]:
    """Draw phases that nobody works on any more, in the columns that `alike` needs."""
    return _rows(lines, alike, {}, width, None, paint)


def _rows(
    lines: Sequence[Line],
    alike: Sequence[Line],
    logs: Logs,
    width: int,
    now: datetime | None,
    paint: Paint,
    *,
    is_alone: bool = True,
) -> list[str]:
    names = [_name_of(each, is_alone=is_alone) for each in alike]
    name_width = min(max(map(width_of, names), default=0), max(8, width * 2 // 5))
    version_width = max((len(each.phase.func_version) for each in alike), default=0)
    rows = []
    for line in lines:
        mark, colour = _mark_of(line, now)
        name = cut(_name_of(line, is_alone=is_alone), name_width)
        percent = ""
        if line.is_at_work and line.phase.percent is not None:
            percent = f"{line.phase.percent}%"
        cells = [
            (f"    {mark} ", colour),
            (padded(name, name_width), ""),
            (f"  {line.phase.func_version:<{version_width}}", "dim"),
            (f"  {percent or _time_of(line, now):>7}", ""),
            *_notes_of(line, now),
        ]
        if percent:
            cells.insert(4, (f"  {_time_of(line, now)}", ""))
        rows.append(_joined(cells, width, paint))
        log = logs.get((line.action.name, line.phase.name)) if line.is_at_work else None
        if log:
            rows.append(paint(cut(f"      │ {clean(log)}", width), "dim"))
    return rows


def _joined(cells: Sequence[tuple[str, str]], width: int, paint: Paint) -> str:
    text, left = "", width
    last = max((at for at, (cell, _) in enumerate(cells) if cell.strip()), default=0)
    for at, (cell, colour) in enumerate(cells[: last + 1]):
        shown = cut(cell.rstrip() if at == last else cell, left)
        text += paint(shown, colour) if colour and shown.strip() else shown
        left -= width_of(shown)
        if width_of(shown) < width_of(cell.rstrip()):
            break
    return text


def _name_of(line: Line, *, is_alone: bool) -> str:
    name = clean(line.phase.name)
    return name if is_alone else f"{clean(line.action.name)}/{name}"


def _mark_of(line: Line, now: datetime | None) -> tuple[str, str]:
    phase = line.phase
    if phase.is_skipped:
        return _SKIPPED
    if phase.state is State.COMPLETE:
        return _COMPLETE
    if phase.state is State.FAILED:
        return _FAILED
    if line.is_to_be_retried:
        return _RETRIES
    if line.is_at_work:
        if now is None:
            return _LEFT
        return _SPINNER[int(now.timestamp()) % len(_SPINNER)], "blue"
    return _WAITS


def _time_of(line: Line, now: datetime | None) -> str:
    phase = line.phase
    if phase.start_time is None or phase.is_skipped or line.is_to_be_retried:
        return ""
    if line.is_at_work:
        return whole_seconds((now - phase.start_time).total_seconds()) if now else ""
    if phase.completion_time is None:
        return ""
    return exact_seconds((phase.completion_time - phase.start_time).total_seconds())


def _notes_of(line: Line, now: datetime | None) -> list[tuple[str, str]]:
    phase = line.phase
    notes = [("  deferred", "dim")] if line.is_deferred else []
    if phase.is_skipped:
        notes.append(("  skipped", "dim"))
    elif line.is_to_be_retried:
        assert phase.retry_time is not None
        why = f": {clean(phase.error.message)}" if phase.error is not None else ""
        if now is not None:
            seconds = math.ceil((phase.retry_time - now).total_seconds())
            again = f"  attempt {phase.attempt + 1} in {whole_seconds(seconds)}"
            notes.append((again, "yellow"))
        notes.append((f"  attempt {phase.attempt} failed{why}", ""))
    else:
        if phase.attempt > 1:
            notes.append((f"  attempt {phase.attempt}", "yellow"))
        if phase.state is State.FAILED and phase.error is not None:
            notes.append((f"  {clean(phase.error.message)}", "red"))
    return notes


# Durations


def whole_seconds(seconds: float) -> str:
    """Write a duration that still grows, such as 3s or 1m05s."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole // 60 % 60:02d}m"


def exact_seconds(seconds: float) -> str:
    """Write a duration that is over, such as 0.4s or 1m05s."""
    return f"{max(0.0, seconds):.1f}s" if seconds < 59.95 else whole_seconds(round(seconds))
