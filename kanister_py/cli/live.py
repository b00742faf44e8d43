"""Shows a run while it runs, as a picture on a terminal that is kept up to date."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from threading import Lock, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from kanister_py.cli.output import paint
from kanister_py.cli.view import Warnings

if TYPE_CHECKING:
    from kanister_py.core.actionsets.outcomes import Outcome
    from kanister_py.core.actionsets.status import Status, Warned
    from kanister_py.ports.clock import Clock

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
        self._warnings = Warnings()
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
