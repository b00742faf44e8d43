"""Log of the controller, and the lines that phases print.

Every line that a phase prints is stored twice. The logger `kanister_py.phase` writes it to the
log of the controller, with the ActionSet, action, phase, function, version and attempt as fields,
so that it is kept as long as the cluster keeps logs. `PhaseLines` keeps the last lines of recent
runs in memory, for the HTTP API. Known secrets are already masked in both.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Final, NamedTuple, TextIO

from kanister_py.core.actionsets.status import text_of_moment
from kanister_py.core.kube.printable import printable
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.clock import Clock
from kanister_py.ports.phase_lines import PrintedLine
from kanister_py.ports.tracing import trace_id_of, traceparent

PHASE_LOGGER: Final = "kanister_py.phase"
_FIELDS: Final = "kanister_py_fields"
_MAX_WAITING: Final = 20_000
_FLUSH_SECONDS: Final = 5.0
_MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_LINES: Final = 2000


def fields_of(**fields: Any) -> dict[str, Any]:
    """Return the `extra` argument for a logger that adds fields to the line."""
    return {_FIELDS: {key: value for key, value in fields.items() if value not in ("", None)}}


class JsonLines(logging.Formatter):
    """Formatter that writes each record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": text_of_moment(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """Formatter that writes each record as text, followed by its fields."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 # as logging calls it
        # The message may quote text of users, which must not contain terminal sequences.
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, Any] = getattr(record, _FIELDS, {})
        details = printable(" ".join(f"{key}={value}" for key, value in fields.items()))
        line = super().format(record)
        return f"{line} ({details})" if details else line


class _BackgroundHandler(logging.Handler):
    """Log handler that formats and writes in its own thread, so that logging never blocks.

    It acquires no lock, because all threads would compete for it. If the reader of the log is too
    slow, records below the level WARNING are dropped and counted.
    """

    def __init__(self, target: logging.Handler) -> None:
        super().__init__()
        self._target = target
        self._waiting: SimpleQueue[logging.LogRecord | Event] = SimpleQueue()
        self._left_out = 0
        Thread(target=self._write, name="log", daemon=True).start()

    def handle(self, record: logging.LogRecord) -> bool:
        # Like `logging.Handler.handle`, but without its lock.
        if passes := bool(self.filter(record)):
            self.emit(record)
        return passes

    def emit(self, record: logging.LogRecord) -> None:
        if self._waiting.qsize() >= _MAX_WAITING and record.levelno < logging.WARNING:
            self._left_out += 1
            return
        # Format the message now, because its arguments may change before the record is written.
        record.msg, record.args = record.getMessage(), None
        trace = trace_id_of(traceparent())
        if trace:
            fields = getattr(record, _FIELDS, {})
            setattr(record, _FIELDS, {"traceId": trace, **fields})
        self._waiting.put(record)

    def _write(self) -> None:
        while True:
            record = self._waiting.get()
            if isinstance(record, Event):
                record.set()
                continue
            self._target.handle(record)
            if self._left_out and self._waiting.qsize() < _MAX_WAITING // 2:
                count, self._left_out = self._left_out, 0
                message = f"{count} lines of the log were dropped because its reader is too slow"
                left_out = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING"}
                self._target.handle(logging.makeLogRecord({**left_out, "msg": message}))

    def flush(self) -> None:
        """Write all queued records. The logging package calls it at the end of the process."""
        is_written = Event()
        self._waiting.put(is_written)
        is_written.wait(_FLUSH_SECONDS)
        self._target.flush()


def set_up_logging(form: str, stream: TextIO, level: str = "info") -> None:
    """Write the log of this process to a stream, as text or as JSON."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[_BackgroundHandler(handler)], force=True)
    logging.getLogger("kanister_py").setLevel(level.upper())


# The lines of phases


class LineSource(NamedTuple):
    """The phase that printed a line, and the function it ran."""

    action: str
    phase: str
    function: str = ""
    version: str = ""
    attempt: int = 0


@dataclass(slots=True, eq=False, repr=False)
class _RunLines:
    uid: str
    lines: deque[PrintedLine]
    written: int = 0
    size: int = field(default=0)


class PhaseLines:
    """The last lines that the phases of recent runs printed, with a limit on their total size."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._runs: OrderedDict[ObjectKey, _RunLines] = OrderedDict()
        self._size = 0
        self._log = logging.getLogger(PHASE_LOGGER)
        self._listeners: list[Callable[[ObjectKey], None]] = []

    def listen(self, call: Callable[[ObjectKey], None]) -> None:
        """Register a function that is called with the key of the ActionSet for each stored line."""
        self._listeners.append(call)

    def has(self, key: ObjectKey) -> bool:
        """Return whether any line of an ActionSet is stored."""
        return key in self._runs

    def write(self, key: ObjectKey, uid: str, place: LineSource, text: str) -> None:
        """Store a line, and log it."""
        if self._log.isEnabledFor(logging.INFO):
            of_phase = {**place._asdict(), "attempt": place.attempt or None}
            fields = fields_of(namespace=key.namespace, actionSet=key.name, **of_phase)
            self._log.info("%s", text, extra=fields)
        time = text_of_moment(self._clock.now())
        with self._lock:
            run = self._lines_of(key, uid)
            run.written += 1
            action, phase, function, version, attempt = place
            line = PrintedLine(
                time, action, phase, text, function, version, attempt, number=run.written
            )
            run.lines.append(line)
            self._grow(run, _weight(text))
            while len(run.lines) > _MAX_LINES:
                self._grow(run, -_weight(run.lines.popleft().text))
            while self._size > _MAX_BYTES and (oldest := next(iter(self._runs))) != key:
                self._size -= self._runs.pop(oldest).size
            while self._size > _MAX_BYTES and len(run.lines) > 1:
                self._grow(run, -_weight(run.lines.popleft().text))
        for call in self._listeners:
            call(key)

    def _lines_of(self, key: ObjectKey, uid: str) -> _RunLines:
        run = self._runs.get(key)
        if run is None or run.uid != uid:
            if run is not None:
                self._size -= run.size
            run = self._runs[key] = _RunLines(uid, deque())
        self._runs.move_to_end(key)
        return run

    def _grow(self, run: _RunLines, weight: int) -> None:
        run.size += weight
        self._size += weight

    def lines(self, key: ObjectKey, *, after: int = 0) -> list[PrintedLine]:
        """Return the stored lines of an ActionSet whose number is greater than `after`."""
        with self._lock:
            run = self._runs.get(key)
            return [line for line in run.lines if line.number > after] if run else []

    def forget(self, key: ObjectKey) -> None:
        """Delete the lines of an ActionSet that was deleted."""
        with self._lock:
            run = self._runs.pop(key, None)
            if run is not None:
                self._size -= run.size


def _weight(text: str) -> int:
    return 400 + 2 * len(text)
