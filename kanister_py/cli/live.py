"""Shows a run while it runs: a picture kept up to date on a terminal, else plain lines."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from threading import Lock, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TextIO

from kanister_py.cli.output import has_colours, paint

if TYPE_CHECKING:
    from kanister_py.core.actionsets.outcomes import Outcome
    from kanister_py.core.actionsets.status import Status, Warned
    from kanister_py.ports.clock import Clock


class View(Protocol):
    """What shows a run. `on_outcome` and `on_log` are called by the threads of the run."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def on_outcome(self, outcome: Outcome, status: Status) -> None: ...

    def on_log(self, action: str, phase: str, line: str) -> None: ...

    def tell(self, line: str) -> None:
        """Say something that stays."""

    def refresh(self, name: str, status: Status, notices: Sequence[Warned]) -> None:
        """Show how the run stands now, and what it has to say for the first time."""

    def clear(self) -> None:
        """Make room for what is said at the end."""

    @property
    def width(self) -> int | None:
        """How wide a line may be, None for as wide as it likes."""


def view_on(stream: TextIO, clock: Clock) -> View:
    """Choose how to show a run on a stream: live only where a cursor can be moved."""
    encoding = (stream.encoding or "").lower().replace("-", "")
    if has_colours(stream) and encoding == "utf8":
        return LiveView(stream, clock)
    return PlainView(stream)


class _Warnings:
    """Says each notice once, however often and to whichever thread it is given."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._last: Sequence[Warned] = ()

    def new(self, notices: Sequence[Warned]) -> list[str]:
        if notices is self._last:
            return []
        self._last = notices
        found = []
        for notice in notices:
            if notice.message not in self._said:
                self._said.add(notice.message)
                found.append(f"{paint('warning:', 'yellow', sys.stderr)} {notice.message}")
        return found


class PlainView:
    """Shows a run as a line for each thing that happens."""

    width = None

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._lock = Lock()
        self._warnings = _Warnings()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def on_outcome(self, outcome: Outcome, status: Status) -> None:
        with self._lock:
            self._write(self._warnings.new(status.warnings))
            self._write(_told(outcome, status))

    def on_log(self, action: str, phase: str, line: str) -> None:
        if self._is_terminal:
            from kanister_py.cli.columns import clean

            line = clean(line)
        self.tell(f"  {action}/{phase} | {line}")

    def tell(self, line: str) -> None:
        with self._lock:
            self._write([line])

    def refresh(self, name: str, status: Status, notices: Sequence[Warned]) -> None:  # noqa: ARG002 # all but the notices was told when it happened
        with self._lock:
            self._write(self._warnings.new(notices))

    def clear(self) -> None:
        pass

    def _write(self, lines: Sequence[str]) -> None:
        if lines:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()


def _told(outcome: Outcome, status: Status) -> list[str]:
    """Say in a line what happened; nothing of what is no news to people."""
    from kanister_py.core.actionsets.outcomes import (
        PhaseCompleted,
        PhaseFailed,
        PhaseSkipped,
        PhaseStarted,
    )

    if not isinstance(outcome, PhaseStarted | PhaseCompleted | PhaseSkipped | PhaseFailed):
        return []
    phase = status.phase_at(outcome.place)
    where = f"{status.actions[outcome.place.action].name}/{phase.name}"
    if isinstance(outcome, PhaseStarted):
        again = f" (attempt {outcome.attempt})" if outcome.attempt > 1 else ""
        return [f"{paint('▶', 'blue', sys.stderr)} {where}{again}"]
    if isinstance(outcome, PhaseFailed):
        more = ""
        if phase.retry_time is not None:
            more = f"; tried again at {phase.retry_time:%H:%M:%S}"
        return [f"{paint('✗', 'red', sys.stderr)} {where}: {outcome.error.message}{more}"]
    note = " skipped" if isinstance(outcome, PhaseSkipped) else ""
    return [f"{paint('✓', 'green', sys.stderr)} {where}{note}"]


# On a terminal

_HIDE_CURSOR: Final = "\x1b[?25l"
_SHOW_CURSOR: Final = "\x1b[?25h"
_NO_WRAP: Final = "\x1b[?7l"
_WRAP: Final = "\x1b[?7h"
_CLEAR_LINE_END: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"


class LiveView:
    """Shows a run as a picture at the foot of what the terminal has printed so far.

    Threads of the run only leave word; `refresh`, called by one thread at its own
    pace, draws, and only when there is something else to see. While nothing happens
    that is once a second: all clocks of the picture tick together.
    """

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.now()
        self._screen = Screen(stream)
        self._lock = Lock()
        self._warnings = _Warnings()
        self._told: list[str] = []
        self._logs: dict[tuple[str, str], str] = {}
        self._news = 0
        self._drawn: tuple[int, ...] = ()
        self._status: Status | None = None
        self._is_to_pause = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if current_thread() is main_thread():
            self._before = signal.signal(signal.SIGTSTP, self._note_pause)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTSTP, self._before)
        self._screen.leave(self._take_told())

    def on_outcome(self, outcome: Outcome, status: Status) -> None:
        from kanister_py.core.actionsets.outcomes import (
            PhaseCompleted,
            PhaseFailed,
            PhaseSkipped,
            PhaseStarted,
        )

        if isinstance(outcome, PhaseStarted | PhaseCompleted | PhaseSkipped | PhaseFailed):
            action = status.actions[outcome.place.action]
            with self._lock:
                self._logs.pop((action.name, status.phase_at(outcome.place).name), None)

    def on_log(self, action: str, phase: str, line: str) -> None:
        if not line.strip():
            return
        with self._lock:
            # The newest stands last, wherever it stood before.
            self._logs.pop((action, phase), None)
            self._logs[action, phase] = line
            self._news += 1

    def tell(self, line: str) -> None:
        with self._lock:
            self._told.append(line)

    def refresh(self, name: str, status: Status, notices: Sequence[Warned]) -> None:
        from kanister_py.cli.frame import Seen, frame_of

        if self._is_to_pause:
            self._pause()
        seconds = int((self._clock.now() - self._began).total_seconds())
        columns, rows = self._screen.size()
        with self._lock:
            told = [*self._told, *self._warnings.new(notices)]
            self._told = []
            logs = dict(self._logs)
            to_draw = (self._news, seconds, columns, rows)
        if status is self._status and to_draw == self._drawn and not told:
            return
        self._status, self._drawn = status, to_draw
        seen = Seen(name, status, self._began, logs)
        now = self._began + timedelta(seconds=seconds)
        # A row stays free for the cursor, a column because it would else stand on the last sign.
        self._screen.draw(frame_of(seen, columns - 1, rows - 1, now, _painted), above=told)

    @property
    def width(self) -> int:
        return self._screen.size()[0] - 1

    def clear(self) -> None:
        self._screen.draw([], above=self._take_told())
        self._screen.leave()

    def _take_told(self) -> list[str]:
        with self._lock:
            told, self._told = self._told, []
        return told

    def _note_pause(self, _signal: int, _frame: FrameType | None) -> None:
        self._is_to_pause = True

    def _pause(self) -> None:
        """Give the terminal back to the shell, as Ctrl-Z asks, until the shell wakes us."""
        self._is_to_pause = False
        self._screen.leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._note_pause)
        self._drawn = ()


def _painted(text: str, colour: str) -> str:
    return paint(text, colour, sys.stderr)


def size_of(stream: TextIO) -> tuple[int, int]:
    """Say how many columns and rows a terminal has; one that does not know has 80 and 24."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except OSError:
        columns, rows = 0, 0
    return columns or 80, rows or 24


class Screen:
    """The last rows of a terminal, drawn over in place with one write each time."""

    def __init__(self, stream: TextIO, size: Callable[[], tuple[int, int]] | None = None) -> None:
        self._stream = stream
        self.size = size or (lambda: size_of(stream))
        self._lines: list[str] = []
        self._columns = 0
        self._has_cursor = True
        self._is_lost = False

    def draw(self, lines: Sequence[str], above: Sequence[str] = ()) -> None:
        """Show lines instead of those shown before; `above` goes there and stays."""
        columns = self.size()[0]
        if not lines and not above and not self._lines:
            return
        parts = [_HIDE_CURSOR if self._has_cursor else "", self._to_first_row(columns)]
        if above:
            parts += [_CLEAR_BELOW, *(f"{line}\n" for line in above)]
        # A line that is wider than we think must not push the others down.
        parts += [_NO_WRAP, *(f"{line}{_CLEAR_LINE_END}\n" for line in lines), _CLEAR_BELOW, _WRAP]
        self._write("".join(parts))
        self._lines, self._columns, self._has_cursor = list(lines), columns, False

    def leave(self, above: Sequence[str] = ()) -> None:
        """Let go of the terminal; what is on it stays."""
        if above:
            self.draw(self._lines, above)
        if not self._has_cursor:
            self._write(_SHOW_CURSOR)
        self._lines, self._has_cursor = [], True

    def _to_first_row(self, columns: int) -> str:
        rows = len(self._lines)
        if columns < self._columns:
            # Terminals break lines anew when they become narrower.
            from kanister_py.cli.columns import clean, width_of

            rows = sum(max(1, -(-width_of(clean(line)) // columns)) for line in self._lines)
        return f"\r\x1b[{rows}A" if rows else "\r"

    def _write(self, text: str) -> None:
        if self._is_lost:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            # The terminal is gone. A backup that is under way is worth more than its picture.
            self._is_lost = True
