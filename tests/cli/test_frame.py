"""Display of a run on a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from kanister_py.cli.frame import Logs, Snapshot, frame_of
from kanister_py.cli.live import renderable_of
from kanister_py.cli.output import Line
from kanister_py.core.actionsets.status import (
    CANCEL_ASKED,
    ActionStatus,
    Condition,
    Moved,
    PhaseError,
    PhaseStatus,
    State,
    Status,
)
from kanister_py.core.kube.durations import exact_seconds, whole_seconds

BEGAN = datetime(2026, 1, 2, 3, 4, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def phase_of(name: str, state: State, **more: Any) -> PhaseStatus:
    return PhaseStatus(name, state, func_version="v0.0.0", **more)


def waits(name: str) -> PhaseStatus:
    return phase_of(name, State.PENDING)


def runs(name: str, since: float, percent: int | None = None, attempt: int = 1) -> PhaseStatus:
    return phase_of(name, State.RUNNING, start_time=at(since), percent=percent, attempt=attempt)


def complete(name: str, since: float, until: float) -> PhaseStatus:
    return phase_of(
        name, State.COMPLETE, start_time=at(since), completion_time=at(until), attempt=1
    )


def skipped(name: str, when: float) -> PhaseStatus:
    times = {"start_time": at(when), "completion_time": at(when)}
    return phase_of(name, State.COMPLETE, **times, attempt=1, is_skipped=True)


BROKEN = PhaseError("It broke", "Broken")


def failed(name: str, since: float, until: float, attempt: int = 1) -> PhaseStatus:
    times = {"start_time": at(since), "completion_time": at(until)}
    return phase_of(name, State.FAILED, **times, attempt=attempt, error=BROKEN)


def retried(name: str, when: float) -> PhaseStatus:
    times = {"start_time": at(0), "retry_time": at(when)}
    return phase_of(name, State.PENDING, **times, attempt=1, error=BROKEN)


def action(
    *phases: PhaseStatus, name: str = "backup", deferred: PhaseStatus | None = None
) -> ActionStatus:
    target = {"kind": "Deployment", "namespace": "shop", "name": "db"}
    return ActionStatus(name, target, phases=phases, deferred=deferred)


def picture(
    *actions: ActionStatus,
    now: float = 5.0,
    width: int = 59,
    height: int = 24,
    percent: int = 0,
    logs: Logs | None = None,
    conditions: Sequence[Condition] = (),
) -> list[str]:
    status = Status(State.RUNNING, actions=actions, percent=percent, conditions=tuple(conditions))
    seen = Snapshot("run-1", status, BEGAN, logs or {})
    return drawn(frame_of(seen, width, height, at(now)), width)


def drawn(lines: Sequence[Line], width: int) -> list[str]:
    """Return lines as a terminal of a given width shows them."""
    console = Console(file=io.StringIO(), width=max(width, 1), color_system=None)
    with console.capture() as capture:
        console.print(renderable_of(lines, width), end="")
    return [line.rstrip() for line in capture.get().splitlines()][: len(lines)]


@pytest.mark.parametrize(
    ("phase", "want"),
    [
        pytest.param(waits("dump"), "    · dump  v0.0.0", id="waiting"),
        pytest.param(runs("dump", 2), "    ⠴ dump  v0.0.0       3s", id="running"),
        pytest.param(
            runs("dump", 2, percent=42), "    ⠴ dump  v0.0.0      42%  3s", id="with its percent"
        ),
        pytest.param(
            runs("dump", 2, percent=42)._replace(moved=Moved(1536, 4096, 3, 9)),
            "    ⠴ dump  v0.0.0      42%  3s  1.500 KiB of 4.000 KiB, 3…",
            id="with what it has moved",
        ),
        pytest.param(
            runs("dump", 2, attempt=3),
            "    ⠴ dump  v0.0.0       3s  attempt 3",
            id="running for the third time",
        ),
        pytest.param(complete("dump", 1, 4.25), "    ✓ dump  v0.0.0     3.2s", id="complete"),
        pytest.param(skipped("dump", 1), "    - dump  v0.0.0           skipped", id="skipped"),
        pytest.param(
            failed("dump", 1, 3, attempt=2),
            "    ✗ dump  v0.0.0     2.0s  attempt 2  It broke",
            id="failed",
        ),
        pytest.param(
            retried("dump", 7.2),
            "    ↻ dump  v0.0.0           attempt 2 in 3s  attempt 1 fa…",
            id="to be tried again",
        ),
        pytest.param(
            retried("dump", 2),
            "    ↻ dump  v0.0.0           attempt 2 in 0s  attempt 1 fa…",
            id="overdue for its next attempt",
        ),
    ],
)
def test_phase_shows_its_progress(phase: PhaseStatus, want: str) -> None:
    assert picture(action(phase))[2:] == [want]


def test_actions_show_their_object_and_their_phases_in_order() -> None:
    shown = picture(
        action(complete("stop", 0, 1), runs("dump", 2), deferred=waits("start")),
        action(waits("everything"), name="verify"),
        percent=33,
    )
    assert shown == [
        "Run run-1   33%  1 of 4  5s",
        "  backup  Deployment shop/db",
        "    ✓ stop        v0.0.0     1.0s",
        "    ⠴ dump        v0.0.0       3s",
        "    · start       v0.0.0           deferred",
        "  verify  Deployment shop/db",
        "    · everything  v0.0.0",
    ]


def test_wide_terminal_shows_a_progress_bar() -> None:
    want = "Run run-1  ━━━━━━━━━━──────────   50%  0 of 1  5s"
    assert picture(action(waits("a")), percent=50, width=80)[0] == want


def test_running_phase_shows_its_last_log_line_escaped_and_cut() -> None:
    logs = {("backup", "dump"): "table 日本語 \x07of 12 is dumped"}
    shown = picture(action(runs("dump", 2), waits("b")), logs=logs, width=30)
    assert shown[3] == r"      │ table 日本語 \x07of 1…"
    assert len(shown) == 5


def test_cancelled_run_explains_a_second_interrupt() -> None:
    cancelled = Condition(CANCEL_ASKED, True, "Cancelled")
    shown = picture(action(runs("dump", 2)), conditions=[cancelled], width=80)
    assert shown[0].endswith("5s  cancelling; Ctrl-C again stops at once")


def test_important_phases_are_shown_if_rows_are_few() -> None:
    phases = [complete(f"done{number}", number, number + 1) for number in range(4)]
    shown = picture(
        action(*phases, skipped("no", 1), runs("now", 4), waits("next"), waits("later")), height=6
    )
    assert shown == [
        "Run run-1    0%  5 of 8  5s",
        "    ✓ done2  v0.0.0     1.0s",
        "    ✓ done3  v0.0.0     1.0s",
        "    ⠴ now    v0.0.0       1s",
        "    · next   v0.0.0",
        "  … 2 complete, 1 skipped, 1 waiting not shown",
    ]


def test_phases_name_their_action_if_rows_are_few() -> None:
    shown = picture(
        action(runs("dump", 1), waits("x")), action(runs("dump", 2), name="files"), height=4
    )
    assert shown[1:] == [
        "    ⠴ backup/dump  v0.0.0       4s",
        "    ⠴ files/dump   v0.0.0       3s",
        "  … 1 waiting not shown",
    ]


def test_too_many_running_phases_are_counted() -> None:
    phases = [runs(f"phase{number:04d}", number / 1000) for number in range(1000)]
    shown = picture(action(*phases), height=5, logs={("backup", "phase0999"): "busy"})
    assert shown == [
        "Run run-1    0%  0 of 1000  5s",
        "    ⠴ phase0998  v0.0.0       4s",
        "    ⠴ phase0999  v0.0.0       4s",
        "      │ busy",
        "  … 998 running not shown",
    ]


def test_long_names_are_shortened() -> None:
    shown = picture(action(runs("p" * 300, 2)), width=40)
    assert shown[2] == "    ⠴ ppppppppppppppp…  v0.0.0       3s"


def test_display_changes_once_a_second() -> None:
    backup = action(runs("dump", 2.5))
    assert picture(backup, now=5) == picture(backup, now=5)
    assert picture(backup, now=5) != picture(backup, now=6)


def test_phases_with_the_same_name_share_one_log_line() -> None:
    logs = {("backup", "dump"): "busy"}
    shown = picture(action(*(runs("dump", 1) for _ in range(9))), height=6, logs=logs)
    assert len(shown) == 6
    assert shown.count("      │ busy") == 1


PHASES = st.one_of(
    st.builds(waits, st.text(max_size=30)),
    st.builds(runs, st.text(max_size=30), st.floats(0, 5), st.none() | st.integers(0, 100)),
    st.builds(complete, st.text(max_size=30), st.floats(0, 2), st.floats(2, 5)),
    st.builds(failed, st.text(max_size=30), st.floats(0, 2), st.floats(2, 5)),
    st.builds(retried, st.text(max_size=30), st.floats(0, 9)),
)


@given(st.lists(st.lists(PHASES, max_size=5), max_size=4), st.integers(1, 90), st.integers(1, 20))
def test_display_fits_the_terminal(
    phases: list[list[PhaseStatus]], width: int, height: int
) -> None:
    actions = [action(*phase_group, name=f"a{index}") for index, phase_group in enumerate(phases)]
    logs = {(status.name, phase.name): "日" * 80 for status in actions for phase in status.phases}
    shown = picture(*actions, width=width, height=height, logs=logs)
    assert len(shown) <= height
    assert all(cell_len(line) <= width for line in shown)


@pytest.mark.parametrize(
    ("seconds", "whole", "exact"),
    [
        (-1.0, "0s", "0.0s"),
        (0.44, "0s", "0.4s"),
        (59.94, "59s", "59.9s"),
        (59.96, "59s", "1m00s"),
        (65.0, "1m05s", "1m05s"),
        (3725.0, "1h02m", "1h02m"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, whole: str, exact: str) -> None:
    assert (whole_seconds(seconds), exact_seconds(seconds)) == (whole, exact)
