"""Views of a run: the choice of the view, and the plain view."""

from __future__ import annotations

import io
import re

import pytest

from kanister_py.cli.live import LiveView
from kanister_py.cli.view import PlainView, view_on
from kanister_py.core.actionsets.status import (
    ActionStatus,
    PhaseError,
    PhaseStatus,
    State,
    Status,
    Warned,
)
from tests.fake_clock import FakeClock

OLD = Warned("FunctionVersionDeprecated", "KubeTask v0.0.0 is old")


class Stream(io.StringIO):
    """A stream that may claim to be a terminal."""

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


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(view_on(Stream(), FakeClock()), PlainView)


def test_no_color_removes_colours_bold_and_dim_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen, clock = Stream(), FakeClock()
    actions = (ActionStatus("backup", phases=(PhaseStatus("dump", State.RUNNING),)),)
    with view_on(screen, clock) as view:
        assert isinstance(view, LiveView)
        view.refresh("run-1", Status(State.RUNNING, actions), ())
    assert "dump" in screen.getvalue()
    assert not re.search(r"\x1b\[[0-9;]*m", screen.getvalue())


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(Stream(is_terminal=False), id="a pipe"),
        pytest.param(Stream("latin-1"), id="a terminal without unicode"),
    ],
)
def test_plain_view_without_a_terminal(stream: Stream) -> None:
    assert isinstance(view_on(stream, FakeClock()), PlainView)


def test_plain_view_prints_changes_and_each_warning_once() -> None:
    clock = FakeClock()
    now = clock.now()
    pipe = Stream(is_terminal=False)
    broke = PhaseError("It broke")

    def status(*phases: PhaseStatus) -> Status:
        actions = (ActionStatus("backup", phases=phases),)
        return Status(State.RUNNING, actions, warnings=(OLD, OLD))

    complete = PhaseStatus("dump", State.COMPLETE, attempt=2)
    skipped = PhaseStatus("check", State.COMPLETE, attempt=1, is_skipped=True)
    with view_on(pipe, clock) as view:
        view.on_status(status(PhaseStatus("dump")))
        view.on_status(status(PhaseStatus("dump", State.RUNNING, attempt=1)))
        view.on_log("backup", "dump", "table 1 of 3")
        view.on_status(status(PhaseStatus("dump", retry_time=now, attempt=1, error=broke)))
        view.on_status(status(PhaseStatus("dump", State.RUNNING, attempt=2)))
        view.refresh("run-1", status(PhaseStatus("dump")), (OLD,))
        view.on_status(status(complete))
        view.on_status(status(complete, skipped))
        view.on_status(status(complete, skipped))
        view.on_status(status(PhaseStatus("load", State.FAILED, error=broke)))
        view.on_status(status(PhaseStatus("load", State.FAILED, attempt=1, error=broke)))
        view.add_line("Cancelling")
        view.clear()
    assert pipe.getvalue().splitlines() == [
        "warning: KubeTask v0.0.0 is old",
        "▶ backup/dump",
        "  backup/dump | table 1 of 3",
        "✗ backup/dump: It broke; retry at 00:00:00",
        "▶ backup/dump (attempt 2)",
        "✓ backup/dump",
        "✓ backup/check skipped",
        "✗ backup/load",
        "✗ backup/load: It broke",
        "Cancelling",
    ]


def test_phases_with_the_same_name_are_reported_separately() -> None:
    pipe = Stream(is_terminal=False)
    stages = (
        PhaseStatus("dump"),
        PhaseStatus("dump", State.RUNNING, attempt=1),
        PhaseStatus("dump", State.COMPLETE, attempt=1),
    )
    with view_on(pipe, FakeClock()) as view:
        for first, second in ((0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (2, 2)):
            phases = (stages[first], stages[second])
            view.on_status(Status(State.RUNNING, (ActionStatus("backup", phases=phases),)))
    assert pipe.getvalue().splitlines() == ["▶ backup/dump", "✓ backup/dump"] * 2


def test_closed_view_prints_nothing() -> None:
    pipe = Stream(is_terminal=False)
    with PlainView(pipe) as view:
        view.add_line("one")
    view.on_log("backup", "dump", "two")
    view.add_line("three")
    assert pipe.getvalue() == "one\n"
