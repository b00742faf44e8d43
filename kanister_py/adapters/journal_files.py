"""Journals in a folder: runs and an embedded cluster that a later process can continue.

When `write` returns, the line has been passed to the operating system, so killing the process loses
nothing. Lines that must survive a power failure are synced immediately, all others within a second.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from kanister_py.core.actionsets.outcomes import (
    Abandoned,
    Outcome,
    PhaseProgressed,
    PhaseStarted,
    outcome_as_dict,
    parse_outcome,
)
from kanister_py.core.actionsets.status import Status
from kanister_py.core.errors import JournalUnwritable, UsageError
from kanister_py.core.kube.names import dns_subdomain_problem
from kanister_py.core.kube.resources import NAMESPACES
from kanister_py.files import write_atomically
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster

FORMAT: Final = 1
_SYNC_SECONDS: Final = 1.0


class RecordedRun(NamedTuple):
    """A recorded run: its header and all outcomes since."""

    name: str
    header: Mapping[str, Any]
    outcomes: tuple[Outcome, ...]


class StateFolder:
    """A folder used by one process at a time. It contains secrets, so only the owner has access."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._lock = -1

    def __enter__(self) -> Self:
        """Lock the folder for this process, and create it if it does not exist."""
        try:
            # Of parent folders that mkdir creates, only the last gets the requested mode.
            for folder in (self._folder, self._runs):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._lock, 100, 0).decode("ascii", "replace").strip()
            self.close()
            by = f" by process {holder}" if holder else ""
            raise UsageError(
                f"State folder {self._folder} is in use{by}; wait for it, or use another folder",
                reason="StateFolderInUse",
            ) from None
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, str(os.getpid()).encode(), 0)
            self._check_format()
        except OSError as error:
            self.close()
            raise self._unreadable(error.strerror or str(error)) from error
        except UsageError:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock of the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def _runs(self) -> Path:
        return self._folder / "runs"

    def _check_format(self) -> None:
        path = self._folder / "state.json"
        if not path.exists():
            write_atomically(path, _json({"format": FORMAT}))
            return
        content = self._read_json(path)
        kept = content.get("format") if isinstance(content, dict) else None
        if kept != FORMAT:
            raise self._unreadable(
                f"it has format {kept}, this release supports {FORMAT}; use another folder"
            )

    def _unreadable(self, why: str) -> UsageError:
        return UsageError(
            f"State folder {self._folder} cannot be used: {why}", reason="StateFolderUnreadable"
        )

    def _read_json(self, path: Path) -> Any:
        try:
            return json.loads(path.read_bytes())
        except OSError as error:
            raise self._unreadable(f"{path.name}: {error.strerror}") from error
        except ValueError as error:
            raise self._unreadable(f"{path.name} is damaged: {error}") from error

    # The cluster

    def read_cluster(self) -> Mapping[str, Any] | None:
        """Return the stored state of the cluster, or None."""
        path = self._folder / "cluster.json"
        return self._read_json(path) if path.exists() else None

    def write_cluster(self, state: Mapping[str, Any]) -> None:
        """Replace the stored state of the cluster."""
        path = self._folder / "cluster.json"
        try:
            write_atomically(path, _json(state))
        except OSError as error:
            raise JournalUnwritable(str(path), error.strerror or str(error)) from error

    # Runs

    def runs(self) -> list[str]:
        """Return the names of the stored runs, oldest first."""
        files = sorted(self._runs.glob("*.jsonl"), key=lambda path: (path.stat().st_mtime, path))
        return [path.stem for path in files]

    def read_run(self, name: str) -> RecordedRun:
        """Read a run, by default the last one. An incomplete last line is ignored."""
        name = name or (self.runs() or ["-"])[-1]
        path = self._path_of(name)
        if not path.exists():
            raise self._not_found(name)
        lines = list(self._lines(path))
        if not lines:
            raise self._unreadable(f"{path.name} is empty")
        header = lines[0]
        if header.get("journal") != FORMAT:
            raise self._unreadable(
                f"{path.name} has format {header.get('journal')}, this release supports {FORMAT}"
            )
        try:
            outcomes = tuple(parse_outcome(line) for line in lines[1:])
        except ValueError as error:
            raise self._unreadable(f"{path.name} is damaged: {error}") from error
        return RecordedRun(name, header, outcomes)

    def _lines(self, path: Path) -> Iterator[dict[str, Any]]:
        data = path.read_bytes()
        complete = data[: data.rfind(b"\n") + 1]
        for number, line in enumerate(complete.splitlines(), 1):
            try:
                read = json.loads(line)
            except ValueError as error:
                raise self._unreadable(
                    f"{path.name} is damaged at line {number}: {error}"
                ) from error
            if not isinstance(read, dict):
                raise self._unreadable(f"{path.name} is damaged at line {number}: not a map")
            yield read

    def new_run(self, name: str, header: Mapping[str, Any]) -> FileJournal:
        """Create the journal of a run, whose name must be new in this folder."""
        path = self._path_of(name)
        if path.exists():
            raise self._unreadable(f"run {name} already exists; resume it, or choose another name")
        journal = FileJournal(path, self._clock)
        try:
            journal.write_line({"journal": FORMAT, "run": name, **header}, must_last=True)
        except JournalUnwritable:
            # The run has not started, so its name remains available and there is nothing to resume.
            journal.close()
            path.unlink()
            raise
        return journal

    @contextmanager
    def journal(
        self,
        name: str,
        header: Mapping[str, Any],
        recorded: RecordedRun | None,
        kept: tuple[Cluster, Callable[[], Mapping[str, Any]]] | None,
    ) -> Iterator[FileJournal]:
        """Open the journal of a new or resumed run, and of the cluster it acts on."""
        if recorded is not None:
            journal = FileJournal(self._path_of(recorded.name), self._clock)
        else:
            journal = self.new_run(name, header)
        with closing(journal):
            if kept is None:
                yield journal
                return
            keep = self._keeper(*kept)
            keep()
            journal.before_outcome = keep
            try:
                yield journal
            finally:
                keep()

    def _keeper(
        self, cluster: Cluster, save: Callable[[], Mapping[str, Any]]
    ) -> Callable[[], None]:
        """Return a function that stores the cluster if it has changed."""
        kept = ""

        def keep() -> None:
            nonlocal kept
            version = cluster.list(NAMESPACES, limit=1).resource_version
            if version != kept:
                self.write_cluster(save())
                kept = version

        return keep

    def _path_of(self, name: str) -> Path:
        if dns_subdomain_problem(name):
            raise self._not_found(name)
        return self._runs / f"{name}.jsonl"

    def _not_found(self, name: str) -> UsageError:
        available = (
            f"available: {', '.join(names)}" if (names := self.runs()) else "there are no runs"
        )
        return UsageError(f"No run {name} in {self._folder}; {available}", reason="RunNotFound")


class FileJournal:
    """Journal of one run, with one line per outcome.

    A line that cannot be written completely is removed again, so that the file remains readable.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self.before_outcome: Callable[[], None] | None = None
        """Called before an outcome is written, to store the objects that it refers to."""
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._end = _end_of_whole_lines(self._file)
            os.ftruncate(self._file, self._end)
        except OSError as error:
            raise self._unwritable(error) from error
        self._synced_at = clock.monotonic()

    def write(
        self,
        outcome: Outcome,
        status: Status,  # noqa: ARG002 # replaying the outcomes computes it again
        *,
        must_last: bool,
        is_followed: bool = False,  # noqa: ARG002 # every outcome gets a line
    ) -> None:
        if self.before_outcome is not None and not isinstance(
            outcome, PhaseStarted | PhaseProgressed | Abandoned
        ):
            self.before_outcome()
        self.write_line(outcome_as_dict(outcome), must_last=must_last)

    def write_line(self, data: Mapping[str, Any], *, must_last: bool) -> None:
        """Append one line."""
        raw = _json(data) + b"\n"
        try:
            if os.pwrite(self._file, raw, self._end) != len(raw):
                raise OSError(28, "No space left on device")
            now = self._clock.monotonic()
            if must_last or now - self._synced_at >= _SYNC_SECONDS:
                os.fsync(self._file)
                self._synced_at = now
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise self._unwritable(error) from error
        self._end += len(raw)

    def catch_up(self) -> None:
        """Do nothing: no outcome was left out."""

    def close(self) -> None:
        """Close the journal. Later writes fail."""
        # The descriptor's number may soon be reused for another file.
        file, self._file = self._file, -1
        if file >= 0:
            with suppress(OSError):
                os.fsync(file)
            os.close(file)

    def _unwritable(self, error: OSError) -> JournalUnwritable:
        return JournalUnwritable(str(self._path), error.strerror or str(error))


def _json(data: Mapping[str, Any]) -> bytes:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _end_of_whole_lines(file: int) -> int:
    """Return the offset after the last complete line."""
    size = os.fstat(file).st_size
    return os.pread(file, size, 0).rfind(b"\n") + 1 if size else 0
