"""Which view of a run is chosen, and the one that tells a run line by line."""

from __future__ import annotations

import io

import pytest

from kanister_py.adapters.clock_fake import FakeClock
from kanister_py.cli.live import LiveView
from kanister_py.cli.view import PlainView, view_on
from kanister_py.core.actionsets.outcomes import (
    Begun,
    PhaseCompleted,
    PhaseFailed,
    PhaseSkipped,
    PhaseStarted,
)
from kanister_py.core.actionsets.status import (
    ActionStatus,
    PhaseError,
    PhaseStatus,
    Place,
    State,
    Status,
    Warned,
)

OLD = Warned("FunctionVersionDeprecated", "KubeTask v0.0.0 is old")
FIRST = Place(0, 0)


class Stream(io.StringIO):
    """Somewhere to write to that may call itself a terminal."""

    def __init__(self, encoding: str = "utf-8", *, is_terminal: bool = True) -> None:
        super().__init__()
        self._encoding = encoding
        self._is_terminal = is_terminal

    @property
    def encoding(self) -> str:  # type: ignore[override] # io declares an attribute where it has a property
        return self._encoding

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_gets_the_live_view() -> None:
    assert isinstance(view_on(Stream(), FakeClock()), LiveView)


@pytest.mark.parametrize(
    ("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")], ids=["NO_COLOR", "a dumb terminal"]
)
def test_who_wants_no_colours_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert isinstance(view_on(Stream(), FakeClock()), PlainView)


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(Stream(is_terminal=False), id="a pipe"),
        pytest.param(Stream("latin-1"), id="a terminal without unicode"),
    ],
)
def test_where_no_picture_can_be_drawn_there_are_plain_lines(stream: Stream) -> None:
    assert isinstance(view_on(stream, FakeClock()), PlainView)


def test_plain_lines_come_as_things_happen_and_each_warning_once() -> None:
    clock = FakeClock()
    now = clock.now()
    pipe = Stream(is_terminal=False)
    phase = PhaseStatus("dump", retry_time=now)
    actions = (ActionStatus("backup", phases=(phase,)),)
    status = Status(State.RUNNING, actions, warnings=(OLD, OLD))
    with view_on(pipe, clock) as view:
        view.on_outcome(Begun(now, (("v0.0.0",),), (OLD,)), status)
        view.on_outcome(PhaseStarted(now, FIRST, 1), status)
        view.on_log("backup", "dump", "table 1 of 3")
        view.on_outcome(PhaseFailed(now, FIRST, PhaseError("It broke")), status)
        view.on_outcome(PhaseStarted(now, FIRST, 2), status)
        view.refresh("run-1", status, (*status.warnings,))
        view.on_outcome(PhaseCompleted(now, FIRST), status)
        view.on_outcome(PhaseSkipped(now, FIRST), status)
        view.tell("Cancelling")
        view.clear()
    assert pipe.getvalue().splitlines() == [
        "warning: KubeTask v0.0.0 is old",
        "▶ backup/dump",
        "  backup/dump | table 1 of 3",
        "✗ backup/dump: It broke; tried again at 00:00:00",
        "▶ backup/dump (attempt 2)",
        "✓ backup/dump",
        "✓ backup/dump skipped",
        "Cancelling",
    ]


def test_log_lines_stay_as_they_are_in_a_pipe_and_steer_no_terminal() -> None:
    line = "\x1b[2J\x07red"
    pipe, screen = Stream(is_terminal=False), Stream()
    PlainView(pipe).on_log("backup", "dump", line)
    PlainView(screen).on_log("backup", "dump", line)
    assert pipe.getvalue() == f"  backup/dump | {line}\n"
    assert screen.getvalue() == "  backup/dump | red\n"


def test_a_view_that_is_over_says_nothing_whoever_still_has_something_to_say() -> None:
    pipe = Stream(is_terminal=False)
    with PlainView(pipe) as view:
        view.tell("one")
    view.on_log("backup", "dump", "two")
    view.tell("three")
    assert pipe.getvalue() == "one\n"
