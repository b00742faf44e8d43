"""Views of a run in progress: a live display on a terminal, else one line for each change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeAlias

from kanister_py.cli.frame import Row, changed_rows
from kanister_py.cli.output import Line, Tint, is_terminal, put_printed, shown, warning
from kanister_py.core.actionsets.status import State

if TYPE_CHECKING:
    from kanister_py.cli.live import LiveView
    from kanister_py.core.actionsets.outcomes import Outcome
    from kanister_py.core.actionsets.status import Status, Warned
    from kanister_py.ports.clock import Clock

View: TypeAlias = "PlainView | LiveView"


def view_on(stream: TextIO, clock: Clock) -> View:
    """Return the view for a stream: live if it is a terminal that can move its cursor."""
    encoding = (stream.encoding or "").lower().replace("-", "")
    if is_terminal(stream) and encoding == "utf8":
        from kanister_py.cli.live import LiveView

        return LiveView(stream, clock)
    return PlainView(stream)


class Warnings:
    """Warnings of a run, each shown once."""

    def __init__(self) -> None:
        self._shown: set[str] = set()
        self._last: Sequence[Warned] = ()

    def new(self, notices: Sequence[Warned]) -> list[Line]:
        """Return the lines of warnings that were not shown before."""
        if notices is self._last:
            return []
        self._last = notices
        fresh = []
        for notice in notices:
            if notice.message not in self._shown:
                self._shown.add(notice.message)
                fresh.append(warning(notice.message))
        return fresh


class TolerantStream:
    """A stream whose errors are ignored: a running backup matters more than its output."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_lost = False

    def write(self, text: str) -> int:
        if not self.is_lost:
            try:
                self._stream.write(text)
            except OSError:
                self.is_lost = True
        return len(text)

    def flush(self) -> None:
        if not self.is_lost:
            try:
                self._stream.flush()
            except OSError:
                self.is_lost = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class PlainView:
    """View of a run with one line for each change."""

    width = None

    def __init__(self, stream: TextIO) -> None:
        self._stream: Any = TolerantStream(stream)
        self._lock = Lock()
        self._warnings = Warnings()
        self._last: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        # Threads of a stopped run may still write. A thread that writes while the interpreter
        # shuts down would hold the lock of the stream, and the process would abort.
        with self._lock:
            self._stream.is_lost = True

    def on_outcome(self, outcome: Outcome, status: Status) -> None:  # noqa: ARG002 # the status contains the outcome
        self.on_status(status)

    def on_status(self, status: Status) -> None:
        with self._lock:
            self._write(self._warnings.new(status.warnings))
            for row in changed_rows(self._last, status):
                self._write(list(_lines_of_change(row)))
            self._last = status

    def on_log(self, action: str, phase: str, line: str) -> None:
        with self._lock:
            put_printed(f"  {action}/{phase} | ", line, self._stream)
            self._stream.flush()

    def add_line(self, line: Line) -> None:
        with self._lock:
            self._write([line])

    def refresh(self, name: str, status: Status, notices: Sequence[Warned]) -> None:  # noqa: ARG002 # the rest was shown when it happened
        with self._lock:
            self._write(self._warnings.new(notices))

    def clear(self) -> None:
        pass

    def _write(self, lines: Sequence[Line]) -> None:
        if lines:
            self._stream.write("".join(f"{shown(line, self._stream)}\n" for line in lines))
            self._stream.flush()


def _lines_of_change(row: Row) -> Iterator[Line]:
    """Yield the line that reports a change of a phase."""
    phase = row.phase
    place = f" {row.action.name}/{phase.name}"
    error = f": {' '.join(phase.error.message.split())}" if phase.error is not None else ""
    if row.is_running:
        attempt = f" (attempt {phase.attempt})" if phase.attempt > 1 else ""
        yield Tint("▶", "blue"), f"{place}{attempt}"
    elif phase.state is State.COMPLETE:
        yield Tint("✓", "green"), f"{place}{' skipped' if phase.is_skipped else ''}"
    elif phase.state is State.FAILED:
        # The summary has the error of a phase that never started, with all other problems.
        yield Tint("✗", "red"), f"{place}{error if phase.attempt else ''}"
    elif phase.retry_time is not None:
        yield Tint("✗", "red"), f"{place}{error}; retry at {phase.retry_time:%H:%M:%S}"
