"""How is a run shown while it runs: as a picture on a terminal, or line by line?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Self, TextIO, TypeAlias

from kanister_py.cli.output import has_colours, paint

if TYPE_CHECKING:
    from kanister_py.cli.live import LiveView
    from kanister_py.core.actionsets.outcomes import Outcome
    from kanister_py.core.actionsets.status import Status, Warned
    from kanister_py.ports.clock import Clock

View: TypeAlias = "PlainView | LiveView"


def view_on(stream: TextIO, clock: Clock) -> View:
    """Choose how to show a run on a stream: live only where a cursor can be moved."""
    encoding = (stream.encoding or "").lower().replace("-", "")
    if has_colours(stream) and encoding == "utf8":
        from kanister_py.cli.live import LiveView

        return LiveView(stream, clock)
    return PlainView(stream)


class Warnings:
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
        self._is_lost = False
        self._lock = Lock()
        self._warnings = Warnings()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        # Threads of a run that nobody waits for may have more to say. Who writes while the
        # process ends holds the stream when it is closed, and takes the process down.
        with self._lock:
            self._is_lost = True

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
        if not lines or self._is_lost:
            return
        try:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
        except OSError:
            # Nobody reads any more. A backup that is under way is worth more than its lines.
            self._is_lost = True


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
