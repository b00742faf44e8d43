"""Summary of an ended run: result, outputs and next steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest

from kanister_py.cli.output import text_of
from kanister_py.cli.summary import EndedRun
from kanister_py.cli.summary import summary_of as lines_of_summary
from kanister_py.core.actionsets.status import (
    CANCEL_ASKED,
    ActionStatus,
    Condition,
    PhaseError,
    PhaseOutput,
    PhaseStatus,
    RunError,
    State,
    Status,
)


def summary_of(ending: EndedRun) -> list[str]:
    return [text_of(line).rstrip() for line in lines_of_summary(ending)]


BEGAN = datetime(2026, 1, 2, 3, 4, 0, tzinfo=UTC)
ENDED = BEGAN + timedelta(seconds=2)


def phase(name: str, state: State, **more: Any) -> PhaseStatus:
    times = {"start_time": BEGAN, "completion_time": ENDED}
    if state is State.PENDING:
        times = {}
    if state is State.RUNNING:
        del times["completion_time"]
    return PhaseStatus(name, state, func_version="v0.0.0", **{**times, **more})


def output(**values: str) -> PhaseOutput:
    return PhaseOutput(MappingProxyType(values), 1)


def action(*phases: PhaseStatus, **more: Any) -> ActionStatus:
    target = {"kind": "Namespace", "namespace": "shop", "name": "shop"}
    return ActionStatus("backup", target, phases=phases, **more)


def test_complete_run_lists_names_of_outputs_without_values() -> None:
    done = action(
        phase("dump", State.COMPLETE, output=output(path="s3://hidden", size="hidden")),
        phase("check", State.COMPLETE, is_skipped=True, output=output()),
        artifacts={"copy": {"keyValue": {"path": "hidden"}}},
        completion_time=ENDED,
    )
    ending = EndedRun("run-1", Status(State.COMPLETE, (done,)), 65.0, state="./state")
    assert list(summary_of(ending)) == [
        "✓ Run run-1: complete after 1m05s",
        "  backup  Namespace shop",
        "    ✓ dump   v0.0.0     2.0s",
        "    - check  v0.0.0           skipped",
        "  outputs    dump: path, size",
        "  artifacts  copy",
        "  stored in  ./state, as run-1",
    ]


BROKEN = RunError(
    "Phase load of action backup failed",
    "CommandFailed",
    "backup",
    "load",
    2,
    3,
    ("one", "\x1b[1mtwo"),
)
FAILED = Status(
    State.FAILED,
    (
        action(
            phase("dump", State.COMPLETE),
            phase("load", State.FAILED, attempt=2, error=PhaseError("It broke", "CommandFailed")),
            phase("check", State.PENDING),
            deferred=phase("tidy", State.COMPLETE),
        ),
    ),
    BROKEN,
)


def test_failed_run_shows_place_reason_log_and_retry() -> None:
    ending = EndedRun("run-1", FAILED, 4.0, state="my state", resume_flags=["--pods=processes"])
    kept = "--state 'my state' --resume run-1"
    again = f"kanister-py run {kept} --pods=processes --retry-from load"
    assert list(summary_of(ending)) == [
        "✗ Run run-1: failed after 4.0s",
        "  backup  Namespace shop",
        "    ✓ dump   v0.0.0     2.0s",
        "    ✗ load   v0.0.0     2.0s  attempt 2  It broke",
        "    · check  v0.0.0",
        "    ✓ tidy   v0.0.0     2.0s  deferred",
        "  stored in  my state, as run-1",
        "  not run    backup/check",
        "error: Phase load of action backup failed",
        "  place      backup/load, attempt 2",
        "  reason     CommandFailed, exit code 3",
        "  last log   │ one",
        r"             │ \x1b[1mtwo",
        f"  retry      {again}",
    ]


def test_failed_run_without_state_suggests_one() -> None:
    assert list(summary_of(EndedRun("run-1", FAILED, 4.0)))[-1] == (
        "  next       runs with --state DIR can be continued: --resume, --retry-from PHASE"
    )


def test_refused_run_lists_problems_without_a_retry() -> None:
    problems = (
        'backup/load args.a (b.yaml:3): no "x" in .Options; in Kanister\'s words: "x" not found',
        "backup/check objects.s (b.yaml:9): Secret shop/s does not exist",
    )
    error = RunError("2 problems", "ObjectMissing", "backup", "load", problems=problems)
    ending = EndedRun(
        "run-1", FAILED._replace(error=error), 0.1, missing_object_hint="-f FILE gives it"
    )
    summary = list(summary_of(ending))
    assert summary[summary.index("error: Action backup would fail, so nothing was started") :] == [
        "error: Action backup would fail, so nothing was started",
        '  ✗ backup/load args.a (b.yaml:3): no "x" in .Options',
        '             Kanister: "x" not found',
        "  ✗ backup/check objects.s (b.yaml:9): Secret shop/s does not exist",
        "  place      backup/load",
        "  reason     ObjectMissing",
        "  fix        -f FILE gives it",
    ]


def test_each_problem_of_a_phase_has_a_line() -> None:
    problems = ("`one`: found 'maybe'", "`other`: found 'maybe'")
    message = f"Phase load of action backup failed at attempt 2: {'; '.join(problems)}"
    error = BROKEN._replace(message=message, problems=problems)
    summary = summary_of(EndedRun("run-1", FAILED._replace(error=error), 0.1))
    at = summary.index("error: Phase load of action backup failed")
    assert summary[at + 1 : at + 3] == [f"  ✗ {problem}" for problem in problems]
    assert summary[at + 3] == "  place      backup/load, attempt 2"


def test_failed_deferred_phase_is_listed_after_the_cause() -> None:
    why = "Phase load of action backup failed"
    tidy = "Deferred phase tidy of action backup failed"
    message = f"{why}; in Kanister's words: it broke; after that: {tidy}"
    status = FAILED._replace(error=BROKEN._replace(message=message))
    summary = summary_of(EndedRun("run-1", status, 0.1))
    at = summary.index(f"error: {why}")
    assert summary[at + 1 : at + 4] == [
        "  Kanister   it broke",
        f"  after that {tidy}",
        "  place      backup/load, attempt 2",
    ]


def test_refused_run_lists_problems_once_with_flags_for_missing_inputs() -> None:
    why = 'backup/load args.a (b.yaml:3): no "creds" in .Secrets; there is nothing in it'
    phases = (
        phase("dump", State.COMPLETE),
        phase("load", State.FAILED, error=PhaseError(why, "RenderFailed")),
    )
    error = RunError(why, "RenderFailed", "backup", "load", problems=(why,))
    status = Status(State.FAILED, (action(*phases),), error)
    gives = {".Secrets": "--secret {}=NAMESPACE/NAME"}
    summary = summary_of(EndedRun("run-1", status, 0.1, input_flags=gives))
    assert sum(why in line for line in summary) == 1
    assert summary[-1] == "  fix        --secret creds=NAMESPACE/NAME"


@pytest.mark.parametrize(
    ("why", "want"),
    [
        pytest.param(
            '.Profile is missing and has no "Location"; there are: Time',
            "  fix        --profile NAMESPACE/NAME",
            id="no Profile",
        ),
        pytest.param(
            'Line 1: Profile is missing and has no "Location"',
            "  fix        --profile NAMESPACE/NAME",
            id="no Profile in Jinja2",
        ),
        pytest.param(
            "Line 1: 'creds' is undefined in Secrets; there is nothing in it",
            "  fix        --secret creds=NAMESPACE/NAME",
            id="no Secret in Jinja2",
        ),
        pytest.param(
            'no "creds" in .Secrets; there are: cerds, other; in Kanister\'s words: x',
            "  reason     RenderFailed",
            id="misspelt",
        ),
        pytest.param(
            "error calling index: reflect: slice index out of range, in <index .Deployment.Pods 0>",
            "  fix        --pods processes",
            id="no pods",
        ),
    ],
)
def test_missing_inputs_get_a_flag_and_misspelt_names_do_not(why: str, want: str) -> None:
    error = RunError(
        why, "RenderFailed", "backup", "load", problems=(f"backup/load args.a: {why}",)
    )
    status = Status(State.FAILED, (action(phase("load", State.FAILED)),), error)
    gives = {".Secrets": "--secret {}=NAMESPACE/NAME", ".Profile": "--profile NAMESPACE/NAME"}
    gives[".Pods"] = "--pods processes"
    assert summary_of(EndedRun("run-1", status, 0.1, input_flags=gives))[-1] == want


@pytest.mark.parametrize(
    ("reason", "is_cancelled", "first"),
    [
        pytest.param("Cancelled", True, "✗ Run run-1: cancelled after 1.0s", id="by somebody"),
        pytest.param("RunTimedOut", False, "✗ Run run-1: failed after 1.0s", id="by its timeout"),
    ],
)
def test_cancelled_run_lists_phases_that_did_not_run(
    reason: str, is_cancelled: bool, first: str
) -> None:
    phases = [phase(f"step{number:02d}", State.PENDING) for number in range(11)]
    status = Status(
        State.FAILED,
        (action(*phases),),
        RunError("It was cancelled", reason),
        conditions=(Condition(CANCEL_ASKED, True, reason),),
    )
    ending = EndedRun("run-1", status, 1.0, state="s")
    summary = list(summary_of(ending))
    assert ending.is_cancelled is is_cancelled
    assert summary[0] == first
    left = ", ".join(f"backup/step{number:02d}" for number in range(8))
    assert f"  not run    {left} and 3 more" in summary
    assert summary[-1].endswith("--resume run-1 --retry-from step00")


STOPPED = Status(
    State.FAILED,
    (
        action(
            phase("dump", State.FAILED, error=PhaseError("It was stopped", "Cancelled")),
            phase("check", State.PENDING),
        ),
    ),
    RunError("It was stopped", "Cancelled", "backup", "dump"),
)


def test_stopped_run_lists_stopped_phases_and_the_retry() -> None:
    ending = EndedRun("run-1", STOPPED, 1.0, is_stopped=True, state="s")
    summary = list(summary_of(ending))
    assert summary[0] == "✗ Run run-1: stopped at once after 1.0s"
    assert summary[4:7] == [
        "  stored in  s, as run-1",
        "  stopped    backup/dump",
        "  not run    backup/check",
    ]
    assert summary[-1] == "  retry      kanister-py run --state s --resume run-1 --retry-from dump"


def test_unwritten_end_is_reported_with_the_resume_command() -> None:
    summary = list(summary_of(EndedRun("run-1", STOPPED, 1.0, is_kept=False, state="s")))
    assert "  stored in  s, as run-1, except its end, which could not be written" in summary
    assert summary[-1] == "  resume     kanister-py run --state s --resume run-1"


def test_summary_lists_a_hundred_phases_and_counts_the_others() -> None:
    phases = [phase(f"step{number}", State.COMPLETE) for number in range(1000)]
    summary = list(summary_of(EndedRun("run-1", Status(State.COMPLETE, (action(*phases),)), 1.0)))
    assert len(summary) == 103
    assert summary[-1] == "    … 900 complete not shown"


def test_summary_of_many_actions_names_those_of_listed_phases() -> None:
    actions = tuple(action(phase("dump", State.COMPLETE)) for _ in range(1000))
    summary = list(summary_of(EndedRun("run-1", Status(State.COMPLETE, actions), 1.0)))
    assert len(summary) == 202
    assert summary[-1] == "    … 900 complete not shown"
