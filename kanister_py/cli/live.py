"""Live view of a run, updated in place on a terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from datetime import timedelta
from threading import Lock, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, cast

from kanister_py.cli.frame import Snapshot, changed_rows, frame_of
from kanister_py.cli.output import Line, Tint, cells_of
from kanister_py.cli.view import TolerantStream, Warnings
from kanister_py.core.kube.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from kanister_py.core.actionsets.outcomes import Outcome
    from kanister_py.core.actionsets.status import Status, Warned
    from kanister_py.ports.clock import Clock

_MAX_LINE: Final = 1000
"""Length to which log lines are cut; no terminal is wider."""


class LiveView:
    """View of a run below the lines that the terminal has printed so far.

    Threads of the run only record changes. One thread calls `refresh`, which draws if
    something changed, and at least once a second for the clocks.
    """

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._clock = clock
        self._start = clock.now()
        self._screen = Screen(stream)
        self._lock = Lock()
        self._warnings = Warnings()
        self._above: list[Line] = []
        self._logs: dict[tuple[str, str], str] = {}
        self._news = 0
        self._drawn: tuple[int, ...] = ()
        self._status: Status | None = None
        self._last: Status | None = None
        self._must_pause = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if current_thread() is main_thread():
            self._before = signal.signal(signal.SIGTSTP, self._note_pause)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTSTP, self._before)
        self._screen.leave(self._take_above())

    def on_outcome(self, outcome: Outcome, status: Status) -> None:  # noqa: ARG002 # the status contains the outcome
        self.on_status(status)

    def on_status(self, status: Status) -> None:
        with self._lock:
            # Log lines belong to one attempt.
            for row in changed_rows(self._last, status):
                self._logs.pop((row.action.name, row.phase.name), None)
            self._last = status

    def on_log(self, action: str, phase: str, line: str) -> None:
        # A progress bar redraws itself after a carriage return; keep its last state.
        line = line[-_MAX_LINE:].rstrip().rpartition("\r")[2]
        if not line:
            return
        with self._lock:
            # Move the phase to the end: the newest line is last.
            self._logs.pop((action, phase), None)
            self._logs[action, phase] = line
            self._news += 1

    def add_line(self, line: Line) -> None:
        with self._lock:
            self._above.append(line)

    def refresh(self, name: str, status: Status, notices: Sequence[Warned]) -> None:
        if self._must_pause:
            self._pause()
        seconds = int((self._clock.now() - self._start).total_seconds())
        columns, rows = self._screen.size
        with self._lock:
            above = [*self._above, *self._warnings.new(notices)]
            self._above = []
            logs = dict(self._logs)
            to_draw = (self._news, seconds, columns, rows)
        if status is self._status and to_draw == self._drawn and not above:
            return
        self._status, self._drawn = status, to_draw
        snapshot = Snapshot(name, status, self._start, logs)
        now = self._start + timedelta(seconds=seconds)
        # One row and one column stay free for the cursor.
        self._screen.draw(frame_of(snapshot, columns - 1, rows - 1, now), above=above)

    @property
    def width(self) -> int:
        return self._screen.size[0] - 1

    def clear(self) -> None:
        self._screen.clear(self._take_above())

    def _take_above(self) -> list[Line]:
        with self._lock:
            above, self._above = self._above, []
        return above

    def _note_pause(self, _signal: int, _frame: FrameType | None) -> None:
        self._must_pause = True

    def _pause(self) -> None:
        """Suspend this process, as Ctrl-Z does, until the shell resumes it."""
        self._must_pause = False
        self._screen.leave(())
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._note_pause)
        self._drawn = ()


class Screen:
    """The last rows of a terminal, redrawn in place."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console: Console = Console(
            file=cast("TextIO", TolerantStream(stream)),
            # NO_COLOR also turns off bold and dim text.
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            force_terminal=True,
            force_interactive=True,
            highlight=False,
        )
        self._live: Live | None = None

    @property
    def size(self) -> tuple[int, int]:
        return self._console.size

    def draw(self, lines: Sequence[Line], above: Sequence[Line]) -> None:
        """Replace the displayed lines; the lines of `above` are printed once, above them."""
        if self._live is None:
            from rich.live import Live

            self._live = Live(
                console=self._console,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
        for line in above:
            self._console.print(_text_of(line), soft_wrap=True)
        self._live.update(renderable_of(lines, self.size[0] - 1), refresh=True)

    def clear(self, above: Sequence[Line]) -> None:
        """Remove the displayed lines and release the terminal."""
        if self._live is not None:
            self._live.transient = True
        self.leave(above)

    def leave(self, above: Sequence[Line]) -> None:
        """Release the terminal and leave the displayed lines."""
        for line in above:
            self._console.print(_text_of(line), soft_wrap=True)
        if self._live is not None:
            self._live.stop()
            self._live = None


def renderable_of(lines: Sequence[Line], width: int) -> RenderableType:
    from rich.console import Group
    from rich.constrain import Constrain

    return Constrain(Group(*map(_text_of, lines)), width)


def _text_of(line: Line) -> RenderableType:
    from rich.text import Text

    cells = [
        (printable(cell.text), cell.colour) if isinstance(cell, Tint) else printable(cell)
        for cell in cells_of(line)
    ]
    return Text.assemble(*cells, no_wrap=True, overflow="ellipsis")
