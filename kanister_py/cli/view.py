"""Views of a run under way: a picture on a terminal, or a line for each thing that happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeAlias

from kanister_py.cli.output import Line, Tint, is_terminal, put_printed, shown, warning

if TYPE_CHECKING:
    from kanister_py.cli.frame import Row
    from kanister_py.cli.live import LiveView
    from kanister_py.core.actionsets.outcomes import Outcome
    from kanister_py.core.actionsets.status import Status, Warned
    from kanister_py.ports.clock import Clock

View: TypeAlias = "PlainView | LiveView"


def view_on(stream: TextIO, clock: Clock) -> View:
    """Choose how to show a run on a stream: live only where a cursor can be moved."""
    encoding = (stream.encoding or "").lower().replace("-", "")
    if is_terminal(stream) and encoding == "utf8":
        from kanister_py.cli.live import LiveView

        return LiveView(stream, clock)
    return PlainView(stream)


class Warnings:
    """Notices of a run, of which each is shown once."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._last: Sequence[Warned] = ()

    def new(self, notices: Sequence[Warned]) -> list[Line]:
        if notices is self._last:
            return []
        self._last = notices
        found = []
        for notice in notices:
            if notice.message not in self._known:
                self._known.add(notice.message)
                found.append(warning(notice.message))
        return found


class Patient:
    """A stream that may go away: a backup under way is worth more than its output."""

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
    """View of a run with a line for each thing that happens."""

    width = None

    def __init__(self, stream: TextIO) -> None:
        self._stream: Any = Patient(stream)
        self._lock = Lock()
        self._warnings = Warnings()
        self._last: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        # Threads of a run that nobody waits for may have more to say. Who writes while the
        # process ends holds the stream when it is closed, and takes the process down.
        with self._lock:
            self._stream.is_lost = True

    def on_outcome(self, outcome: Outcome, status: Status) -> None:  # noqa: ARG002 # the status says as much
        self.on_status(status)

    def on_status(self, status: Status) -> None:
        from kanister_py.cli.frame import changed_rows

        with self._lock:
            self._write(self._warnings.new(status.warnings))
            for row in changed_rows(self._last, status):
                self._write(list(_news_of(row)))
            self._last = status

    def on_log(self, action: str, phase: str, line: str) -> None:
        with self._lock:
            put_printed(f"  {action}/{phase} | ", line, self._stream)
            self._stream.flush()

    def tell(self, line: Line) -> None:
        with self._lock:
            self._write([line])

    def refresh(self, name: str, status: Status, notices: Sequence[Warned]) -> None:  # noqa: ARG002 # all but the notices was shown when it happened
        with self._lock:
            self._write(self._warnings.new(notices))

    def clear(self) -> None:
        pass

    def _write(self, lines: Sequence[Line]) -> None:
        if lines:
            self._stream.write("".join(f"{shown(line, self._stream)}\n" for line in lines))
            self._stream.flush()


def _news_of(row: Row) -> Iterator[Line]:
    """Say in a line what happened to a phase."""
    from kanister_py.core.actionsets.status import State

    phase = row.phase
    where = f" {row.action.name}/{phase.name}"
    why = f": {' '.join(phase.error.message.split())}" if phase.error is not None else ""
    if row.is_at_work:
        again = f" (attempt {phase.attempt})" if phase.attempt > 1 else ""
        yield Tint("▶", "blue"), f"{where}{again}"
    elif phase.state is State.COMPLETE:
        yield Tint("✓", "green"), f"{where}{' skipped' if phase.is_skipped else ''}"
    elif phase.state is State.FAILED:
        # Of a phase that never began the summary says why, with what else was refused.
        yield Tint("✗", "red"), f"{where}{why if phase.attempt else ''}"
    elif phase.retry_time is not None:
        yield Tint("✗", "red"), f"{where}{why}; tried again at {phase.retry_time:%H:%M:%S}"
