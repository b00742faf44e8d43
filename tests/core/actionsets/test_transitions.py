"""State machine of ActionSets: handles all outcomes, keeps the status consistent, and ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanister_py.core.actionsets.creation import why_not_retried
from kanister_py.core.actionsets.outcomes import (
    Abandoned,
    ArtifactsFailed,
    ArtifactsRendered,
    Begun,
    CancelAsked,
    Launched,
    LaunchFailed,
    Outcome,
    PhaseCompleted,
    PhaseFailed,
    PhaseProgressed,
    PhaseSkipped,
    PhaseStarted,
    Resumed,
    Suspended,
    outcome_as_dict,
    parse_outcome,
)
from kanister_py.core.actionsets.rules import ActionRules, ExecutionMode, PhaseRules, Rules
from kanister_py.core.actionsets.status import (
    DEFER,
    ActionStatus,
    Moved,
    PhaseError,
    PhaseStatus,
    Place,
    State,
    Status,
    new_status,
    parse_status,
    with_totals,
)
from kanister_py.core.actionsets.steps import (
    Begin,
    ContinuePhase,
    Launch,
    RefusePhase,
    RenderArtifacts,
    StartPhase,
    Step,
    StopPhase,
    WaitForRetry,
    next_steps,
)
from kanister_py.core.actionsets.transitions import (
    record,
    status_for_retry,
)
from kanister_py.core.retries import RetryRule

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
BROKEN = PhaseError("it broke", "Broken")
FLAKY = PhaseError("it may pass", "Flaky", is_transient=True)


def rules_of(
    phases: int = 2,
    actions: int = 1,
    *,
    deferred: bool = False,
    artifacts: bool = False,
    retry: RetryRule | None = None,
    mode: ExecutionMode = ExecutionMode.PARALLEL,
) -> Rules:
    action = ActionRules(
        "go",
        tuple(PhaseRules(f"p{at}", retry) for at in range(phases)),
        PhaseRules("tidy", retry) if deferred else None,
        artifacts,
    )
    return Rules((action,) * actions, mode)


def fresh(rules: Rules) -> Status:
    return new_status(
        ActionStatus(
            action.name,
            phases=tuple(PhaseStatus(phase.name) for phase in action.phases),
            deferred=PhaseStatus(action.deferred.name) if action.deferred else None,
        )
        for action in rules.actions
    )


def every_outcome(rules: Rules, now: datetime) -> Iterator[Outcome]:
    yield Begun(now, tuple(("v0.0.0",) * 3 for _ in rules.actions))
    yield CancelAsked(now)
    yield Suspended(now)
    yield Resumed(now)
    yield Abandoned(now, BROKEN)
    for index, action in enumerate(rules.actions):
        yield Launched(now, index)
        yield LaunchFailed(now, index, BROKEN)
        yield ArtifactsRendered(now, index, {"a": {"keyValue": {"k": "v"}}})
        yield ArtifactsFailed(now, index, BROKEN)
        places = [*range(len(action.phases)), *([DEFER] if action.deferred else [])]
        for phase in places:
            place = Place(index, phase)
            yield PhaseStarted(now, place, 1)
            yield PhaseStarted(now, place, 2)
            yield PhaseProgressed(now, place, 40)
            yield PhaseCompleted(now, place, {"k": "v"})
            yield PhaseSkipped(now, place)
            yield PhaseFailed(now, place, BROKEN)
            yield PhaseFailed(now, place, FLAKY)


def check(rules: Rules, status: Status) -> None:
    """Check the invariants of a status."""
    for action in status.actions:
        states = [phase.state for phase in action.phases]
        first = next((at for at, value in enumerate(states) if value is not State.COMPLETE), None)
        if first is not None:
            assert all(state is State.PENDING for state in states[first + 1 :])
        if status.state is State.COMPLETE:
            assert first is None
            assert action.deferred is None or action.deferred.state is State.COMPLETE
    assert (status.state is State.FAILED) == (status.is_final and status.error is not None)
    if status.is_final:
        assert not status.totals.running
        assert next_steps(rules, status, NOW) == []
        return
    steps = next_steps(rules, status, NOW, in_progress=set(status.totals.running))
    is_suspended = (suspended := status.condition("Suspended")) is not None and suspended.is_true
    assert steps or status.totals.running or is_suspended, "nothing would ever happen again"
    again = parse_status(json.loads(json.dumps(status.as_dict())))
    assert again.as_dict() == status.as_dict()
    counted, kept = with_totals(status).totals, status.totals
    # Two phases that start at the same moment have no order in the stored status.
    assert sorted(counted.running) == sorted(kept.running)
    assert counted._replace(running=()) == kept._replace(running=())


SHAPES = [
    pytest.param(rules_of(2), id="two phases"),
    pytest.param(rules_of(0), id="no phases"),
    pytest.param(rules_of(0, 0), id="no actions"),
    pytest.param(rules_of(1, deferred=True), id="a deferred phase"),
    pytest.param(rules_of(0, deferred=True, artifacts=True), id="only a deferred phase"),
    pytest.param(rules_of(1, artifacts=True), id="artifacts"),
    pytest.param(rules_of(1, retry=RetryRule(1)), id="a retry"),
    pytest.param(rules_of(1, 2), id="two actions side by side"),
    pytest.param(rules_of(1, 2, mode=ExecutionMode.SEQUENTIAL), id="two actions in turn"),
    pytest.param(rules_of(0, 2, mode=ExecutionMode.SEQUENTIAL), id="two empty actions in turn"),
]


@pytest.mark.parametrize("rules", SHAPES)
def test_every_outcome_in_every_state_keeps_the_status_consistent(rules: Rules) -> None:
    outcomes = list(every_outcome(rules, NOW))
    for outcome in outcomes:
        assert parse_outcome(json.loads(json.dumps(outcome_as_dict(outcome)))) == outcome
    seen = set()
    todo = [fresh(rules)]
    finals = set()
    while todo:
        status = todo.pop()
        key = json.dumps(status.as_dict(), sort_keys=True)
        if key in seen:
            continue
        seen.add(key)
        check(rules, status)
        if status.is_final:
            finals.add(status.state)
        for outcome in outcomes:
            after = record(rules, status, outcome)
            if status.is_final:
                assert after is status
            if after is not status:
                todo.append(after)
    assert State.COMPLETE in finals


def outcome_of(step: Step, rules: Rules, now: datetime, chance: int) -> Outcome | None:
    """Carry out a step like an executor, with success or failure."""
    match step:
        case Begin():
            return Begun(now, tuple(("v0.0.0",) * 3 for _ in rules.actions))
        case Launch(action):
            return LaunchFailed(now, action, BROKEN) if chance == 0 else Launched(now, action)
        case StartPhase(place, attempt):
            return PhaseStarted(now, place, attempt)
        case ContinuePhase(place) | StopPhase(place):
            bad = {0: BROKEN, 1: FLAKY, 2: FLAKY}.get(chance)
            return PhaseFailed(now, place, bad) if bad else PhaseCompleted(now, place, {})
        case RefusePhase(place, reason):
            return PhaseFailed(now, place, PhaseError("no", reason))
        case RenderArtifacts(action):
            return (
                ArtifactsFailed(now, action, BROKEN)
                if chance == 0
                else ArtifactsRendered(now, action)
            )
        case WaitForRetry():
            return None


@given(
    phases=st.integers(0, 3),
    actions=st.integers(0, 3),
    deferred=st.booleans(),
    artifacts=st.booleans(),
    retries=st.integers(0, 2),
    mode=st.sampled_from(ExecutionMode),
    cancel_at=st.integers(0, 60),
    chances=st.lists(st.integers(0, 5), min_size=150, max_size=150),
)
@settings(max_examples=300, deadline=None)
def test_every_actionset_ends(
    phases: int,
    actions: int,
    deferred: bool,
    artifacts: bool,
    retries: int,
    mode: ExecutionMode,
    cancel_at: int,
    chances: list[int],
) -> None:
    rules = rules_of(
        phases,
        actions,
        deferred=deferred,
        artifacts=artifacts,
        retry=RetryRule(retries) if retries else None,
        mode=mode,
    )
    status, now = fresh(rules), NOW
    for at, chance in enumerate(chances):
        if status.is_final:
            break
        if at == cancel_at:
            status = record(rules, status, CancelAsked(now))
            if status.is_final:
                break
        # No phase is in progress: every pass is the first one of a restarted process.
        steps = next_steps(rules, status, now)
        assert steps
        outcome = outcome_of(steps[chance % len(steps)], rules, now, chance)
        now += timedelta(seconds=1000 if outcome is None else 1)
        if outcome is not None:
            status = record(rules, status, outcome)
            check(rules, status)
    assert status.is_final


def play(rules: Rules, *outcomes: Outcome) -> Status:
    status = record(rules, fresh(rules), Begun(NOW, (("v0.0.0",) * 3,) * len(rules.actions)))
    for index in range(len(rules.actions)):
        status = record(rules, status, Launched(NOW, index))
    for outcome in outcomes:
        status = record(rules, status, outcome)
    return status


FIRST, SECOND, LAST = Place(0, 0), Place(0, 1), Place(0, DEFER)


def test_deferred_phase_runs_after_a_failure_and_its_failure_is_appended() -> None:
    rules = rules_of(2, deferred=True)
    status = play(rules, PhaseStarted(NOW, FIRST, 1), PhaseFailed(NOW, FIRST, BROKEN))
    assert next_steps(rules, status, NOW) == [StartPhase(LAST, 1)]
    status = record(rules, status, PhaseStarted(NOW, LAST, 1))
    status = record(rules, status, PhaseFailed(NOW, LAST, PhaseError("worse", "Worse")))
    assert status.state is State.FAILED
    assert status.error is not None
    assert (status.error.phase, status.error.reason) == ("p0", "Broken")
    cause, _, after = status.error.message.partition("; after that: ")
    assert "it broke" in cause
    assert "Deferred phase tidy" in after
    assert "worse" in after


def test_transient_failure_is_retried_with_backoff() -> None:
    rules = rules_of(1, retry=RetryRule(limit=2, backoff_seconds=5, factor=3))
    status = play(rules, PhaseStarted(NOW, FIRST, 1), PhaseFailed(NOW, FIRST, FLAKY))
    later = NOW + timedelta(seconds=5)
    assert next_steps(rules, status, NOW) == [WaitForRetry(FIRST, later)]
    assert next_steps(rules, status, later) == [StartPhase(FIRST, 2)]
    status = record(rules, status, PhaseStarted(later, FIRST, 2))
    status = record(rules, status, PhaseFailed(later, FIRST, FLAKY))
    assert status.actions[0].phases[0].retry_time == later + timedelta(seconds=15)
    status = record(rules, status, PhaseStarted(later, FIRST, 3))
    status = record(rules, status, PhaseFailed(later, FIRST, FLAKY))
    assert status.state is State.FAILED
    assert status.error is not None
    assert "attempt 3 of 3" in status.error.message


def test_permanent_failure_is_retried_only_if_its_reason_is_listed() -> None:
    for on, expected in ((None, State.FAILED), (frozenset({"Broken"}), State.PENDING)):
        rules = rules_of(1, retry=RetryRule(limit=1, on=on))
        status = play(rules, PhaseStarted(NOW, FIRST, 1), PhaseFailed(NOW, FIRST, BROKEN))
        assert status.actions[0].phases[0].state is expected


def test_failure_that_is_not_retried_explains_why() -> None:
    only_named = RetryRule(limit=3, on=frozenset({"Slow", "Away"}))
    why = "not retried: retry.on lists Away, Slow, not Broken"
    status = failed_under(only_named, BROKEN)
    assert messages_of(status) == (
        f"it broke; {why}",
        f"Phase p0 of action go failed at attempt 1 of 4: it broke; {why} (Broken)",
    )
    assert status.error is not None
    assert status.error.reason == "Broken"
    unnamed, _ = messages_of(failed_under(RetryRule(limit=1), BROKEN))
    assert unnamed == (
        "it broke; not retried: Broken is not transient, and retry.on does not list it"
    )


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        pytest.param(None, BROKEN, id="nobody asked for tries"),
        pytest.param(RetryRule(limit=0), BROKEN, id="there are none"),
        pytest.param(RetryRule(limit=0, on=frozenset({"Other"})), BROKEN, id="none for a reason"),
        pytest.param(
            RetryRule(limit=1, on=frozenset({"Other"})),
            PhaseError("stopped", "Cancelled"),
            id="somebody stopped it",
        ),
    ],
)
def test_failure_without_retries_has_no_explanation(
    rule: RetryRule | None, error: PhaseError
) -> None:
    phase_message, _ = messages_of(failed_under(rule, error))
    assert phase_message == error.message


def test_failure_of_the_last_attempt_has_no_explanation() -> None:
    rules = rules_of(1, retry=RetryRule(limit=1, backoff_seconds=0, on=frozenset({"Flaky"})))
    status = play(
        rules,
        PhaseStarted(NOW, FIRST, 1),
        PhaseFailed(NOW, FIRST, FLAKY),
        PhaseStarted(NOW, FIRST, 2),
        PhaseFailed(NOW, FIRST, BROKEN),
    )
    assert status.state is State.FAILED
    assert messages_of(status)[0] == "it broke"


def failed_under(rule: RetryRule | None, error: PhaseError) -> Status:
    rules = rules_of(1, retry=rule)
    status = play(rules, PhaseStarted(NOW, FIRST, 1), PhaseFailed(NOW, FIRST, error))
    assert status.state is State.FAILED
    return status


def messages_of(status: Status) -> tuple[str, str]:
    """Return the error messages of the first phase and of the ActionSet."""
    phase = status.actions[0].phases[0]
    assert phase.error is not None
    assert status.error is not None
    return phase.error.message, status.error.message


def test_wait_for_a_retry_is_limited_when_the_clock_is_set_back() -> None:
    rule = RetryRule(limit=2, backoff_seconds=5)
    rules = rules_of(1, retry=rule)
    status = play(rules, PhaseStarted(NOW, FIRST, 1), PhaseFailed(NOW, FIRST, FLAKY))
    set_back = NOW - timedelta(hours=1)
    expected = WaitForRetry(FIRST, set_back + timedelta(seconds=5))
    assert next_steps(rules, status, set_back) == [expected]
    delayed = FLAKY._replace(delay_seconds=60.0)
    status = play(rules, PhaseStarted(NOW, FIRST, 1), PhaseFailed(NOW, FIRST, delayed))
    expected = WaitForRetry(FIRST, set_back + timedelta(seconds=60))
    assert next_steps(rules, status, set_back) == [expected]


def test_measured_wait_takes_precedence_over_the_clock() -> None:
    rules = rules_of(1, retry=RetryRule(limit=2, backoff_seconds=5))
    status = play(rules, PhaseStarted(NOW, FIRST, 1), PhaseFailed(NOW, FIRST, FLAKY))
    over = next_steps(rules, status, NOW - timedelta(hours=1), elapsed={FIRST: True})
    assert over == [StartPhase(FIRST, 2)]
    (step,) = next_steps(rules, status, NOW + timedelta(hours=1), elapsed={FIRST: False})
    assert isinstance(step, WaitForRetry)


def test_cancel_stops_running_phases_refuses_pending_ones_and_runs_deferred_ones() -> None:
    rules = rules_of(2, deferred=True)
    status = play(rules, PhaseStarted(NOW, FIRST, 1), CancelAsked(NOW))
    assert next_steps(rules, status, NOW, in_progress={FIRST}) == [StopPhase(FIRST)]
    status = record(rules, status, PhaseCompleted(NOW, FIRST, {}))
    assert next_steps(rules, status, NOW) == [RefusePhase(SECOND)]
    status = record(rules, status, PhaseFailed(NOW, SECOND, PhaseError("no", "Cancelled")))
    assert next_steps(rules, status, NOW) == [StartPhase(LAST, 1)]
    status = record(rules, status, PhaseStarted(NOW, LAST, 1))
    status = record(rules, status, PhaseCompleted(NOW, LAST, {}))
    assert status.state is State.FAILED
    assert status.error is not None
    assert status.error.reason == "Cancelled"


def test_abandoned_run_fails_without_deferred_phases() -> None:
    rules = rules_of(2, deferred=True)
    status = play(rules, PhaseStarted(NOW, FIRST, 1), Abandoned(NOW, BROKEN))
    assert status.state is State.FAILED
    assert status.error is not None
    assert (status.error.phase, status.error.reason) == ("p0", "Broken")
    (action,) = status.actions
    assert [phase.state for phase in action.phases] == [State.FAILED, State.PENDING]
    assert action.deferred is not None
    assert action.deferred.state is State.PENDING


def test_no_phase_starts_while_suspended() -> None:
    rules = rules_of(2)
    status = play(rules, Suspended(NOW))
    assert next_steps(rules, status, NOW) == []
    condition = status.condition("Suspended")
    assert condition is not None
    assert "until spec.suspend is false or removed" in condition.message
    status = record(rules, status, Resumed(NOW))
    assert next_steps(rules, status, NOW) == [StartPhase(FIRST, 1)]


def test_sequential_actions_stop_at_the_first_failure() -> None:
    rules = rules_of(1, 2, mode=ExecutionMode.SEQUENTIAL)
    status = record(rules, fresh(rules), Begun(NOW, (("v0.0.0",),) * 2))
    assert next_steps(rules, status, NOW) == [Launch(0)]
    status = record(rules, status, Launched(NOW, 0))
    status = record(rules, status, PhaseStarted(NOW, FIRST, 1))
    status = record(rules, status, PhaseFailed(NOW, FIRST, BROKEN))
    assert status.state is State.FAILED
    assert status.actions[1].phases[0].state is State.PENDING


def test_too_large_outputs_fail_the_phase() -> None:
    rules = rules_of(2)
    big = {"k": "x" * 300_000}
    status = play(
        rules,
        PhaseStarted(NOW, FIRST, 1),
        PhaseCompleted(NOW, FIRST, big),
        PhaseStarted(NOW, SECOND, 1),
        PhaseCompleted(NOW, SECOND, big),
    )
    assert status.error is not None
    assert status.error.reason == "OutputTooLarge"


def test_too_large_artifacts_fail_the_last_action() -> None:
    rules = rules_of(0, 2, artifacts=True)
    big = {"a": {"keyValue": {"k": "x" * 300_000}}}
    status = play(rules, ArtifactsRendered(NOW, 0, big), ArtifactsRendered(NOW, 1, big))
    assert status.error is not None
    assert (status.state, status.error.reason) == (State.FAILED, "ArtifactsTooLarge")
    assert [bool(action.artifacts) for action in status.actions] == [True, False]
    assert record(rules, status, ArtifactsRendered(NOW, 1, big)) == status


def test_percentage_is_rounded_down_and_its_time_changes_only_with_it() -> None:
    rules = rules_of(3)
    status = play(rules, PhaseStarted(NOW, FIRST, 1), PhaseProgressed(NOW, FIRST, 1))
    assert status.as_dict()["progress"] == {"runningPhase": "p0"}
    later = NOW + timedelta(seconds=9)
    status = record(rules, status, PhaseCompleted(later, FIRST, {}))
    assert status.as_dict()["progress"] == {
        "percentCompleted": "33",
        "lastTransitionTime": "2026-11-18T12:00:09Z",
    }


def test_transferred_bytes_are_reported_for_phases_and_in_total() -> None:
    rules = rules_of(2)
    status = play(rules, PhaseStarted(NOW, FIRST, 1))
    for percent, size in ((0, 10), (25, 250), (25, 260), (10, 5)):
        moved = Moved(size, 1000, size // 100, 9)
        status = record(rules, status, PhaseProgressed(NOW, FIRST, percent, moved))
    expected = {"sizeUploadedB": 260, "estimatedUploadSizeB": 1000}
    expected |= {"filesUploaded": 2, "estimatedFiles": 9}
    data = status.as_dict()
    assert expected.items() <= data["actions"][0]["phases"][0]["progress"].items()
    assert expected.items() <= data["progress"].items()
    assert parse_status(data).as_dict() == data
    outcome = PhaseProgressed(NOW, FIRST, 25, Moved(260, 1000, 2, 9))
    assert parse_outcome(outcome_as_dict(outcome)) == outcome


def test_retry_keeps_outputs_of_earlier_phases() -> None:
    rules = rules_of(3)
    status = play(
        rules,
        PhaseStarted(NOW, FIRST, 1),
        PhaseCompleted(NOW, FIRST, {"id": "1"}),
        PhaseStarted(NOW, SECOND, 1),
        PhaseFailed(NOW, SECOND, BROKEN),
    )
    began = status_for_retry(rules, status, fresh(rules), "p1")
    assert began is not None
    states = [phase.state for phase in began.actions[0].phases]
    assert states == [State.COMPLETE, State.PENDING, State.PENDING]
    assert status_for_retry(rules, status, fresh(rules), "p2") is None
    assert why_not_retried(status, "p2") == "the earlier phase p1 is not complete"
    assert status_for_retry(rules, status, fresh(rules), "unknown") is None


def test_launch_failure_is_stored_at_the_phase_that_caused_it() -> None:
    rules = rules_of(3)
    failed = record(rules, fresh(rules), LaunchFailed(NOW, 0, BROKEN, 1))
    states = [phase.state for phase in failed.actions[0].phases]
    assert states == [State.PENDING, State.FAILED, State.PENDING]
    assert failed.error is not None
    assert failed.error.phase == "p1"


def test_launch_failure_without_a_phase_names_none() -> None:
    rules = rules_of(3)
    failed = record(rules, fresh(rules), LaunchFailed(NOW, 0, BROKEN))
    assert failed.error is not None
    assert failed.error.phase == ""


def test_output_of_a_failed_phase_is_kept_in_the_journal() -> None:
    failed = PhaseFailed(NOW, FIRST, BROKEN, {"replicas": 3})
    assert parse_outcome(outcome_as_dict(failed)) == failed


def test_cancelled_run_waits_for_the_phase_before_an_action_without_phases() -> None:
    action = ActionRules("go", (PhaseRules("p0"),))
    rules = Rules((action, ActionRules("empty")), ExecutionMode.SEQUENTIAL)
    status = record(rules, fresh(rules), Begun(NOW, (("v0.0.0",), ())))
    for outcome in (Launched(NOW, 0), PhaseStarted(NOW, FIRST, 1), CancelAsked(NOW)):
        status = record(rules, status, outcome)
    assert status.state is not State.FAILED
    status = record(rules, status, PhaseFailed(NOW, FIRST, BROKEN))
    assert status.state is State.FAILED
    assert status.actions[0].phases[0].state is State.FAILED
