"""Live view of a run, on a pseudo-terminal and on an emulated terminal."""

from __future__ import annotations

import codecs
import errno
import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kanister_py.cli.live import LiveView, Screen
from kanister_py.cli.output import width_of
from kanister_py.cli.view import view_on
from kanister_py.core.actionsets.outcomes import PhaseStarted
from kanister_py.core.actionsets.status import (
    ActionStatus,
    PhaseStatus,
    Place,
    State,
    Status,
    Warned,
)
from tests.fake_clock import FakeClock

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 180.0


class Terminal:
    """Emulator of a terminal, as far as the live view needs one.

    Keeps lines that have scrolled away. Fails for unknown control sequences, so that
    tests do not depend on them.
    """

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0
        self._has_cursor = self.wraps = True
        self._rest = ""

    def feed(self, text: str) -> None:
        text = self._rest + text
        self._rest = ""
        parts = re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|[\r\n])", text)
        if "\x1b" in parts[-1]:
            self._rest = parts.pop()
        for part in parts:
            if part == "\r":
                self.column = 0
            elif part == "\n":
                self._down()
            elif part.startswith("\x1b["):
                self._obey(part[2:-1], part[-1])
            else:
                self._print(part)

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def _obey(self, numbers: str, command: str) -> None:
        if command == "A":
            top = max(0, len(self.lines) - self.rows)
            self.row = max(top, self.row - int(numbers or 1))
        elif command == "K":
            del self.lines[self.row][self.column :]
        elif command == "J":
            del self.lines[self.row][self.column :]
            del self.lines[self.row + 1 :]
        elif (numbers, command) in {("?25", "l"), ("?25", "h")}:
            self._has_cursor = command == "h"
        elif (numbers, command) in {("?7", "l"), ("?7", "h")}:
            self.wraps = command == "h"
        else:
            assert command == "m", f"unknown: {numbers}{command}"

    def _print(self, text: str) -> None:
        for sign in text:
            assert sign.isprintable(), f"{sign!r} acts on the terminal"
            width = width_of(sign)
            if self.column + width > self.columns:
                if not self.wraps:
                    continue
                self.column = 0
                self._down()
            line = self.lines[self.row]
            line += [" "] * (self.column - len(line))
            line[self.column : self.column + width] = [sign, *[""] * (width - 1)]
            self.column += width

    def shows_cursor(self) -> bool:
        return self._has_cursor

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self.lines).rstrip("\n")


class Glass(io.StringIO):
    """A stream that claims to be a terminal, and counts writes."""

    encoding = "utf-8"

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self.terminal = terminal
        self.writes = 0
        self.is_gone = False

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.is_gone:
            raise OSError(errno.EIO, "Input/output error")
        self.writes += 1
        # As the line discipline of a real terminal does.
        self.terminal.feed(text.replace("\n", "\r\n"))
        return len(text)


@pytest.fixture
def glass(monkeypatch: pytest.MonkeyPatch) -> Glass:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return Glass(Terminal())


def status_of(state: State, clock: FakeClock, *warnings: Warned) -> Status:
    phase = PhaseStatus("dump", state, func_version="v0.0.0", start_time=clock.now(), attempt=1)
    return Status(State.RUNNING, (ActionStatus("backup", phases=(phase,)),), warnings=warnings)


OLD = Warned("FunctionVersionDeprecated", "KubeTask v0.0.0 is old")


# Drawing


def test_display_is_replaced_and_earlier_output_stays(glass: Glass) -> None:
    glass.write("$ kanister-py run\n")
    screen = Screen(glass)
    screen.draw(["one", "two and more", "three"], above=[])
    assert not glass.terminal.shows_cursor()
    screen.draw(["1", "2"], above=[])
    screen.draw(["1", "zwei"], above=["a warning that is wider than the terminal is: " + "x" * 60])
    assert glass.terminal.text.splitlines() == [
        "$ kanister-py run",
        "a warning that is wider than the terminal is: " + "x" * 34,
        "x" * 26,
        "1",
        "zwei",
    ]
    screen.leave(())
    assert glass.terminal.shows_cursor()
    glass.write("$ ")
    assert glass.terminal.text.endswith("\nzwei\n$")


def test_wide_lines_are_cut(glass: Glass) -> None:
    screen = Screen(glass)
    screen.draw(["x" * 200, "below"], above=[])
    screen.draw(["日" * 200, "below"], above=[])
    assert glass.terminal.text == "日" * 39 + "…\nbelow"


def test_unchanged_display_is_not_redrawn(glass: Glass) -> None:
    clock = FakeClock()
    status = status_of(State.RUNNING, clock)
    with LiveView(glass, clock) as view:
        view.refresh("run-1", status, ())
        first = glass.writes
        for _ in range(9):
            clock.advance(0.1)
            view.refresh("run-1", status, ())
        assert glass.writes == first
        clock.advance(0.1)
        view.refresh("run-1", status, ())
        assert glass.writes == first + 1
        view.on_log("backup", "dump", "table 1 of 3")
        view.refresh("run-1", status, ())
        view.refresh("run-1", status, ())
        assert glass.writes == first + 2
        assert "      │ table 1 of 3" in glass.terminal.text


def test_log_line_disappears_with_its_phase(glass: Glass) -> None:
    clock = FakeClock()
    status = status_of(State.RUNNING, clock)
    view = LiveView(glass, clock)
    view.on_status(status)
    view.on_log("backup", "dump", "first attempt")
    view.on_status(status_of(State.PENDING, clock))
    view.on_status(status)
    view.refresh("run-1", status, ())
    assert "first attempt" not in glass.terminal.text


def test_warnings_are_printed_once_above_the_display(glass: Glass) -> None:
    clock = FakeClock()
    status = status_of(State.RUNNING, clock, OLD, OLD)
    with LiveView(glass, clock) as view:
        view.refresh("run-1", status, status.warnings)
        clock.advance(1)
        view.refresh("run-1", status, (*status.warnings, OLD))
    text = glass.terminal.text
    assert text.count(OLD.message) == 1
    assert text.index(OLD.message) < text.index("Run run-1")


def test_narrower_terminal_keeps_earlier_output(glass: Glass) -> None:
    glass.write("$ before\n")
    screen = Screen(glass)
    screen.draw(["a" * 70, "b" * 10], above=[])
    # A terminal wraps the displayed lines again.
    glass.terminal = Terminal(columns=40)
    glass.terminal.feed("$ before\r\n" + "a" * 40 + "\r\n" + "a" * 30 + "\r\n" + "b" * 10)
    screen.draw(["c", "d"], above=[])
    assert glass.terminal.text.startswith("$ before\n")
    assert glass.terminal.text.endswith("\nc\nd")


def fail_while_shown(view: LiveView, clock: FakeClock) -> None:
    with view:
        view.refresh("run-1", status_of(State.RUNNING, clock), ())
        view.add_line("Said late")
        raise OSError("disk full")


def test_exception_keeps_the_display_and_restores_the_cursor(glass: Glass) -> None:
    clock = FakeClock()
    with pytest.raises(OSError, match="disk"):
        fail_while_shown(LiveView(glass, clock), clock)
    assert glass.terminal.shows_cursor()
    assert glass.terminal.wraps
    assert glass.terminal.text.startswith("Said late\nRun run-1")


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_run_continues_without_its_terminal(
    glass: Glass, monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    clock = FakeClock()
    status = status_of(State.RUNNING, clock, OLD)
    with view_on(glass, clock) as view:
        glass.is_gone = True
        view.on_outcome(PhaseStarted(clock.now(), Place(0, 0), 1), status)
        view.on_log("backup", "dump", "table 1 of 3")
        view.refresh("run-1", status, status.warnings)
        view.clear()
    assert glass.writes == 0


# The command on a pseudo-terminal


# Makes stdin the controlling terminal, so that keys become signals.
ON_TERMINAL = """
import os, sys
os.login_tty(0)
os.execv(sys.executable, [sys.executable, "-m", "kanister_py", *sys.argv[1:]])
"""


class Session:
    """kanister-py on a pseudo-terminal, with a user who reads and types."""

    def __init__(self, words: Sequence[str], columns: int = 80, rows: int = 24) -> None:
        self.terminal = Terminal(columns, rows)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._own, other = pty.openpty()
        fcntl.ioctl(self._own, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1"}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, *words],
            stdin=other,
            stdout=other,
            stderr=other,
            cwd=ROOT,
            env=environment,
        )
        os.close(other)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._own)

    def until(self, is_seen: Callable[[str], bool], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until the screen shows a text."""
        deadline = time.monotonic() + seconds
        while not is_seen(self.terminal.text):
            assert self._look(deadline), f"never seen; last was:\n{self.terminal.text}"

    def to_the_end(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait until the command has ended; return its exit code."""
        deadline = time.monotonic() + seconds
        while self._look(deadline):
            pass
        return self.process.wait(timeout=seconds)

    def type(self, keys: bytes) -> None:
        os.write(self._own, keys)

    def _look(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._own], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more came; last was:\n{self.terminal.text}"
        try:
            read = os.read(self._own, 65536)
        except OSError as error:
            # Linux reports a closed other end with this error.
            if error.errno != errno.EIO:
                raise
            return False
        self.terminal.feed(self._decoder.decode(read))
        return bool(read)


@pytest.fixture
def session() -> Iterator[Callable[..., Session]]:
    opened = []

    def open_session(*words: str) -> Session:
        opened.append(Session(words))
        return opened[-1]

    yield open_session
    for opened_session in opened:
        opened_session.close()


SLOW = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: slow}
actions:
  slow:
    phases:
    - func: KubeTask
      name: sleep
      args: {namespace: default, image: i, command: [sh, -c, "echo off to bed; exec sleep 600"]}
    - func: KubeTask
      name: wakeUp
      args: {namespace: default, image: i, command: [echo, morning]}
    deferPhase:
      func: KubeTask
      name: tidy
      args: {namespace: default, image: i, command: [sh, -c, kando output tidied yes]}
"""


@pytest.fixture
def slow(tmp_path: Path) -> str:
    (tmp_path / "slow.yaml").write_text(SLOW)
    return str(tmp_path / "slow.yaml")


def without_times(text: str) -> str:
    """Return the text of a screen without times and names that differ between runs."""
    return re.sub(r"\bhello-\w+|\bslow-\w+", "NAME", re.sub(r" *\b\d+\.\ds", " TIME", text))


def test_hello_shows_its_final_state_and_summary(
    session: Callable[..., Session],
) -> None:
    shown_on = session("run", "blueprints/hello/blueprint.yaml", "hello", "--pods", "processes")
    assert shown_on.to_the_end() == 0
    assert shown_on.terminal.shows_cursor()
    assert shown_on.terminal.wraps
    screen = without_times(shown_on.terminal.text)
    assert screen[screen.index("✓ Run") :].splitlines() == [
        "✓ Run NAME: complete after TIME",
        "  hello  Namespace default",
        "    ✓ sayHello  v0.0.0 TIME",
        "    ✓ repeatIt  v0.0.0 TIME",
        "  outputs    sayHello: greeting",
        "  artifacts  greeting",
    ]
    assert screen.count("Run NAME") == 1


def test_control_c_runs_deferred_phases_and_restores_the_cursor(
    slow: str, tmp_path: Path, session: Callable[..., Session]
) -> None:
    shown_on = session("run", slow, "slow", "--pods=processes", "--state", str(tmp_path / "state"))
    shown_on.until(lambda text: "│ off to bed" in text)
    assert not shown_on.terminal.shows_cursor()
    shown = shown_on.terminal.text
    assert re.search(r"^    [⠀-⣿] sleep   v0\.0\.0 +\d+s$", shown, re.MULTILINE), shown
    assert "    · wakeUp  v0.0.0" in shown
    shown_on.type(b"\x03")
    assert shown_on.to_the_end() == 130
    assert shown_on.terminal.shows_cursor()
    shown = without_times(shown_on.terminal.text)
    assert "✗ Run NAME: cancelled" in shown
    assert "    ✗ sleep   v0.0.0 TIME\n" in shown
    assert "error: Phase sleep of action slow failed at attempt 1: The run was cancelled" in shown
    assert "    ✓ tidy    v0.0.0 TIME  deferred" in shown
    assert "  not run    slow/wakeUp" in shown
    # Lines are wrapped at a position that depends on the length of the folder's name.
    assert "--retry-fromsleep" in "".join(shown.split())
    assert "^C" not in shown


def test_second_control_c_stops_at_once_and_lists_running_phases(
    slow: str, tmp_path: Path, session: Callable[..., Session]
) -> None:
    shown_on = session("run", slow, "slow", "--pods=processes", "--state", str(tmp_path / "state"))
    shown_on.until(lambda text: "│ off to bed" in text)
    shown_on.type(b"\x03\x03")
    assert shown_on.to_the_end() == 130
    assert shown_on.terminal.shows_cursor()
