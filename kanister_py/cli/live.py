"""Live view of a run: a picture on a terminal that is kept up to date."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from datetime import timedelta
from threading import Lock, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, cast

from kanister_py.cli.frame import Moment, changed_rows, frame_of
from kanister_py.cli.output import Line, Tint, cells_of
from kanister_py.cli.view import Patient, Warnings
from kanister_py.core.kube.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from kanister_py.core.actionsets.outcomes import Outcome
    from kanister_py.core.actionsets.status import Status, Warned
    from kanister_py.ports.clock import Clock

_LONGEST: Final = 1000
"""Of a longer line nobody sees the rest: no terminal is that wide."""


class LiveView:
    """View of a run as a picture at the foot of what the terminal has printed so far.

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
        self._above: list[Line] = []
        self._logs: dict[tuple[str, str], str] = {}
        self._news = 0
        self._drawn: tuple[int, ...] = ()
        self._status: Status | None = None
        self._last: Status | None = None
        self._is_to_pause = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if current_thread() is main_thread():
            self._before = signal.signal(signal.SIGTSTP, self._note_pause)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTSTP, self._before)
        self._screen.leave(self._take_above())

    def on_outcome(self, outcome: Outcome, status: Status) -> None:  # noqa: ARG002 # the status says as much
        self.on_status(status)

    def on_status(self, status: Status) -> None:
        with self._lock:
            # What an attempt printed goes with it.
            for row in changed_rows(self._last, status):
                self._logs.pop((row.action.name, row.phase.name), None)
            self._last = status

    def on_log(self, action: str, phase: str, line: str) -> None:
        # Of a progress bar that redraws itself the last picture stays.
        line = line[-_LONGEST:].rstrip().rpartition("\r")[2]
        if not line:
            return
        with self._lock:
            # The newest stands last, wherever it stood before.
            self._logs.pop((action, phase), None)
            self._logs[action, phase] = line
            self._news += 1

    def tell(self, line: Line) -> None:
        with self._lock:
            self._above.append(line)

    def refresh(self, name: str, status: Status, notices: Sequence[Warned]) -> None:
        if self._is_to_pause:
            self._pause()
        seconds = int((self._clock.now() - self._began).total_seconds())
        columns, rows = self._screen.size
        with self._lock:
            above = [*self._above, *self._warnings.new(notices)]
            self._above = []
            logs = dict(self._logs)
            to_draw = (self._news, seconds, columns, rows)
        if status is self._status and to_draw == self._drawn and not above:
            return
        self._status, self._drawn = status, to_draw
        seen = Moment(name, status, self._began, logs)
        now = self._began + timedelta(seconds=seconds)
        # A row stays free for the cursor, a column because it would else stand on the last sign.
        self._screen.draw(frame_of(seen, columns - 1, rows - 1, now), above=above)

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
        self._is_to_pause = True

    def _pause(self) -> None:
        """Give the terminal back to the shell, as Ctrl-Z asks, until the shell wakes us."""
        self._is_to_pause = False
        self._screen.leave(())
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._note_pause)
        self._drawn = ()


class Screen:
    """The last rows of a terminal, drawn over in place."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console: Console = Console(
            file=cast("TextIO", Patient(stream)),
            # Who wants no colours wants nothing bold or dim either.
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
        """Show lines instead of those shown before; `above` goes there and stays."""
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
        self._live.update(picture_of(lines, self.size[0] - 1), refresh=True)

    def clear(self, above: Sequence[Line]) -> None:
        """Take the picture away, and let go of the terminal."""
        if self._live is not None:
            self._live.transient = True
        self.leave(above)

    def leave(self, above: Sequence[Line]) -> None:
        """Let go of the terminal; what is on it stays."""
        for line in above:
            self._console.print(_text_of(line), soft_wrap=True)
        if self._live is not None:
            self._live.stop()
            self._live = None


def picture_of(lines: Sequence[Line], width: int) -> RenderableType:
    from rich.console import Group
    from rich.constrain import Constrain

    return Constrain(Group(*map(_text_of, lines)), width)


def _text_of(line: Line) -> RenderableType:
    from rich.text import Text

    cells = [
        (printable(each.text), each.colour) if isinstance(each, Tint) else printable(each)
        for each in cells_of(line)
    ]
    return Text.assemble(*cells, no_wrap=True, overflow="ellipsis")
