"""State machine of an ActionSet, part 2: the status after an outcome.

Part 1 is `steps.next_steps`. Both are pure functions, so command line, controller and tests behave
the same. An outcome that does not fit the state changes nothing, so a worker that responds too late
cannot reopen a finished phase.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

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
)
from kanister_py.core.actionsets.progress import DONE, record_percent, record_phase
from kanister_py.core.actionsets.rules import ExecutionMode, Rules
from kanister_py.core.actionsets.status import (
    AFTER_THAT,
    CANCEL_ASKED,
    CANCELLED,
    COMPLETE,
    DEFER,
    FAILED,
    FINAL,
    LONG_AGO,
    NOT_MOVED,
    SUSPENDED,
    ActionStatus,
    Condition,
    PhaseError,
    PhaseOutput,
    PhaseStatus,
    Place,
    RunError,
    State,
    Status,
    measure_output,
    new_status,
    size_of,
)
from kanister_py.core.actionsets.steps import (
    current_phase,
    first_unfinished,
    is_true,
    is_unfinished,
)
from kanister_py.core.retries import RetryRule

MAX_OUTPUT_BYTES: Final = 512 * 1024
"""Maximum size of the outputs of all phases of one ActionSet."""
MAX_ARTIFACT_BYTES: Final = 512 * 1024
"""Maximum size of the artifacts of all actions. Both limits together fit into one object."""


def record(rules: Rules, status: Status, outcome: Outcome) -> Status:
    """Return the status of an ActionSet after an outcome.

    Returns the same status if the outcome does not fit it.
    """
    if status.state in FINAL:
        return status
    return _RECORDERS[type(outcome)](rules, status, outcome)


def _record_begun(rules: Rules, status: Status, outcome: Begun) -> Status:
    if status.state is not State.PENDING or len(outcome.versions) != len(status.actions):
        return status
    actions = tuple(map(_with_versions, status.actions, outcome.versions))
    status = status._replace(
        state=State.RUNNING, actions=actions, warnings=(*status.warnings, *outcome.warnings)
    )
    return _settle(rules, status, outcome.time)


def _with_versions(action: ActionStatus, versions: tuple[str, ...]) -> ActionStatus:
    pairs = zip(action.phases, versions, strict=False)
    phases = tuple([phase._replace(func_version=version) for phase, version in pairs])
    deferred = action.deferred
    if deferred is not None and len(versions) > len(phases):
        deferred = deferred._replace(func_version=versions[-1])
    return action._replace(phases=phases, deferred=deferred)


def _record_launched(rules: Rules, status: Status, outcome: Launched) -> Status:
    action = _action_to_launch(rules, status, outcome.action)
    if status.state is not State.RUNNING or action is None:
        return status
    status = _put_action(
        status, outcome.action, action._replace(start_time=outcome.time, facts=outcome.facts)
    )
    status = status._replace(
        totals=status.totals._replace(unlaunched=status.totals.unlaunched - 1),
        warnings=(*status.warnings, *outcome.warnings),
    )
    return _settle_action(rules, status, outcome.action, outcome.time)


def _action_waiting(_: Rules, status: Status, index: int) -> ActionStatus | None:
    action = _action_at(status, index)
    if action is None or action.start_time is not None or action.completion_time is not None:
        return None
    return action


def _action_to_launch(rules: Rules, status: Status, index: int) -> ActionStatus | None:
    action = _action_waiting(rules, status, index)
    if action is None:
        return None
    is_in_turn = rules.mode is ExecutionMode.PARALLEL or first_unfinished(status) == index
    return action if is_in_turn or status.state is State.PENDING else None


def _record_launch_failed(rules: Rules, status: Status, outcome: LaunchFailed) -> Status:
    # All actions of a sequence are checked before its first one starts, so any of them may fail.
    is_first = status.totals.unlaunched == len(status.actions)
    action = (_action_waiting if is_first else _action_to_launch)(rules, status, outcome.action)
    if action is None:
        return status
    error = outcome.error
    failure = RunError(
        message=f"Action {action.name} could not start: {_text_of(error)}",
        reason=error.reason,
        action=action.name,
        problems=error.problems,
    )
    if outcome.phase is not None:
        failure = failure._replace(phase=action.phase(outcome.phase).name)
    if action.phases or outcome.phase is not None:
        # As in Kanister, failures that no phase caused are stored in the first phase.
        place = Place(outcome.action, outcome.phase or 0)
        # The first problem concerns this phase; the others may concern other phases.
        own = error._replace(message=error.problems[0]) if error.problems else error
        failed = action.phase(place.phase)._replace(
            state=State.FAILED, error=own, completion_time=outcome.time
        )
        if action.phase(place.phase).state is State.PENDING:
            status = record_phase(status, place, failed)
    status = status._replace(error=status.error or failure)
    if status.condition(CANCEL_ASKED) is not None and status.state is State.RUNNING:
        # Deferred phases of actions that were launched before the cancellation still run.
        return _close_action(rules, status, outcome.action, outcome.time)
    return _end(status, outcome.time)


def _record_started(rules: Rules, status: Status, outcome: PhaseStarted) -> Status:
    phase = _phase_in_turn(rules, status, outcome.place)
    all_launched = (
        rules.mode is ExecutionMode.SEQUENTIAL
        or not status.totals.unlaunched
        or status.condition(CANCEL_ASKED) is not None
    )
    if (
        phase is None
        or not all_launched
        or phase.state is not State.PENDING
        or outcome.attempt != phase.attempt + 1
        or status.actions[outcome.place.action].start_time is None
    ):
        return status
    started = phase._replace(
        state=State.RUNNING,
        attempt=outcome.attempt,
        start_time=outcome.time,
        retry_time=None,
        error=None,
    )
    return record_phase(status, outcome.place, started)


def _record_progressed(rules: Rules, status: Status, outcome: PhaseProgressed) -> Status:
    phase = _phase_at_work(rules, status, outcome.place)
    percent = max(0, min(DONE, outcome.percent))
    before = phase.percent or 0 if phase is not None else 0
    if phase is None or percent < before or (percent == before and outcome.moved == phase.moved):
        return status
    updated = phase._replace(percent=percent, moved=outcome.moved, progress_time=outcome.time)
    return record_percent(record_phase(status, outcome.place, updated), outcome.time)


def _output_of_failure(status: Status, outcome: PhaseFailed) -> PhaseOutput | None:
    """Return the output of a failed phase, or None if it has none or it is too large."""
    if outcome.output is None:
        return None
    output = measure_output(outcome.output)
    fits = status.totals.output_bytes + output.size_bytes <= MAX_OUTPUT_BYTES
    return output if fits else None


def _record_completed(rules: Rules, status: Status, outcome: PhaseCompleted) -> Status:
    output = measure_output(outcome.output)
    is_too_large = status.totals.output_bytes + output.size_bytes > MAX_OUTPUT_BYTES
    if is_too_large and _phase_at_work(rules, status, outcome.place) is not None:
        error = PhaseError(
            f"The outputs of all phases would have more than {MAX_OUTPUT_BYTES // 1024} KiB; "
            "store the data elsewhere, and output its location",
            reason="OutputTooLarge",
        )
        return _record_failed(rules, status, PhaseFailed(outcome.time, outcome.place, error))
    return _complete_phase(rules, status, outcome, output)


def _complete_phase(
    rules: Rules, status: Status, outcome: PhaseCompleted | PhaseSkipped, output: PhaseOutput
) -> Status:
    phase = _phase_at_work(rules, status, outcome.place)
    if phase is None:
        return status
    done = phase._replace(
        state=State.COMPLETE,
        output=output,
        percent=DONE,
        progress_time=outcome.time,
        completion_time=outcome.time,
        is_skipped=isinstance(outcome, PhaseSkipped),
    )
    status = record_percent(record_phase(status, outcome.place, done), outcome.time)
    return _settle_action(rules, status, outcome.place.action, outcome.time)


def _record_failed(rules: Rules, status: Status, outcome: PhaseFailed) -> Status:
    place, error = outcome.place, outcome.error
    phase = _phase_in_turn(rules, status, place)
    if phase is None or phase.state not in (State.PENDING, State.RUNNING):
        return status
    action = status.actions[place.action]
    rule = rules.actions[place.action].phase(place.phase).retry
    is_cancelled = status.condition(CANCEL_ASKED) is not None and not place.is_deferred
    if phase.state is State.PENDING and not is_cancelled:
        return status
    if phase.state is State.RUNNING and not is_cancelled and _may_retry(rule, phase, error):
        assert rule is not None
        delay = rule.delay_after(phase.attempt, error.delay_seconds)
        waiting = phase._replace(
            state=State.PENDING,
            percent=None,
            moved=NOT_MOVED,
            progress_time=None,
            retry_time=outcome.time + timedelta(seconds=delay),
            error=error,
        )
        return record_percent(record_phase(status, place, waiting), outcome.time)
    if not is_cancelled and (why := _why_no_retry(rule, phase, error)):
        error = error._replace(message=f"{error.message}; {why}")
    failed = phase._replace(
        state=State.FAILED,
        output=_output_of_failure(status, outcome),
        completion_time=outcome.time,
        retry_time=None,
        error=error,
    )
    status = record_phase(status, place, failed)
    status = status._replace(error=_first_error(status.error, action, failed, place, rule))
    return _settle_action(rules, status, place.action, outcome.time)


def _may_retry(rule: RetryRule | None, phase: PhaseStatus, error: PhaseError) -> bool:
    if rule is None or error.reason == CANCELLED:
        return False
    return rule.allows(phase.attempt, error.reason, is_transient=error.is_transient)


def _why_no_retry(rule: RetryRule | None, phase: PhaseStatus, error: PhaseError) -> str:
    """Explain why a phase with remaining attempts is not retried; empty if none remain."""
    has_tries = rule is not None and phase.attempt and phase.attempt <= rule.limit
    if rule is None or not has_tries or error.reason == CANCELLED:
        return ""
    if rule.on is None:
        return f"not retried: {error.reason} is not transient, and retry.on does not list it"
    return f"not retried: retry.on lists {', '.join(sorted(rule.on))}, not {error.reason}"


def _record_artifacts(rules: Rules, status: Status, outcome: ArtifactsRendered) -> Status:
    action = _action_awaiting_artifacts(rules, status, outcome.action)
    if action is None:
        return status
    artifact_bytes = sum(
        size_of(other_action.artifacts) for other_action in status.actions if other_action.artifacts
    )
    if artifact_bytes + size_of(outcome.artifacts) > MAX_ARTIFACT_BYTES:
        error = PhaseError(
            f"The artifacts of all actions would have more than {MAX_ARTIFACT_BYTES // 1024} KiB; "
            "store the data elsewhere, and keep its location in the artifact",
            reason="ArtifactsTooLarge",
        )
        failed = ArtifactsFailed(outcome.time, outcome.action, error)
        return _record_artifacts_failed(rules, status, failed)
    status = _put_action(status, outcome.action, action._replace(artifacts=outcome.artifacts))
    return _close_action(rules, status, outcome.action, outcome.time)


def _record_artifacts_failed(rules: Rules, status: Status, outcome: ArtifactsFailed) -> Status:
    action = _action_awaiting_artifacts(rules, status, outcome.action)
    if action is None:
        return status
    error = RunError(
        message=f"The output artifacts of action {action.name} failed: {_text_of(outcome.error)}",
        reason=outcome.error.reason,
        action=action.name,
    )
    status = status._replace(error=status.error or error)
    return _close_action(rules, status, outcome.action, outcome.time)


def _action_awaiting_artifacts(rules: Rules, status: Status, index: int) -> ActionStatus | None:
    action = _action_at(status, index)
    if action is None or action.completion_time is not None or action.start_time is None:
        return None
    if current_phase(action) is not None or not rules.actions[index].has_artifacts:
        return None
    if action.deferred is not None and action.deferred.state is not State.COMPLETE:
        return None
    return action


def _record_cancel(rules: Rules, status: Status, outcome: CancelAsked) -> Status:
    if status.condition(CANCEL_ASKED) is not None:
        return status
    condition = Condition(CANCEL_ASKED, True, outcome.reason, outcome.message, outcome.time)
    return _settle(rules, _with_condition(status, condition), outcome.time)


_SUSPENSION_MESSAGE: Final = (
    "spec.suspend is true: running phases continue to their end, and no other phase starts until "
    "spec.suspend is false or removed"
)


def _record_suspension(_: Rules, status: Status, outcome: Suspended | Resumed) -> Status:
    suspends = isinstance(outcome, Suspended)
    if is_true(status.condition(SUSPENDED)) is suspends:
        return status
    reason, message = (SUSPENDED, _SUSPENSION_MESSAGE) if suspends else ("Resumed", "")
    return _with_condition(status, Condition(SUSPENDED, suspends, reason, message, outcome.time))


def _record_abandoned(rules: Rules, status: Status, outcome: Abandoned) -> Status:
    failure = status.error
    for place in sorted(status.totals.running):
        action = status.actions[place.action]
        failed = status.phase_at(place)._replace(
            state=State.FAILED, completion_time=outcome.time, error=outcome.error
        )
        rule = rules.actions[place.action].phase(place.phase).retry
        failure = _first_error(failure, action, failed, place, rule)
        status = record_phase(status, place, failed)
    actions = tuple(
        action._replace(completion_time=outcome.time)
        if action.start_time is not None and action.completion_time is None
        else action
        for action in status.actions
    )
    open_actions = sum(map(is_unfinished, actions))
    status = status._replace(
        actions=actions,
        totals=status.totals._replace(open_actions=open_actions),
        error=failure or RunError(outcome.error.message, outcome.error.reason),
    )
    return _end(status, outcome.time)


_RECORDERS: Final[Mapping[type, Callable[[Rules, Status, Any], Status]]] = {
    Begun: _record_begun,
    Launched: _record_launched,
    LaunchFailed: _record_launch_failed,
    PhaseStarted: _record_started,
    PhaseProgressed: _record_progressed,
    PhaseCompleted: _record_completed,
    PhaseSkipped: lambda rules, status, outcome: _complete_phase(
        rules, status, outcome, measure_output({})
    ),
    PhaseFailed: _record_failed,
    ArtifactsRendered: _record_artifacts,
    ArtifactsFailed: _record_artifacts_failed,
    CancelAsked: _record_cancel,
    Suspended: _record_suspension,
    Resumed: _record_suspension,
    Abandoned: _record_abandoned,
}


def _action_at(status: Status, index: int) -> ActionStatus | None:
    return status.actions[index] if 0 <= index < len(status.actions) else None


def _phase_in_turn(rules: Rules, status: Status, place: Place) -> PhaseStatus | None:
    """Return a phase if it is the one that may run now or is running, or None.

    All earlier phases of its action have ended, and in sequential mode all earlier actions.
    """
    action = _action_at(status, place.action)
    if status.state is not State.RUNNING or action is None or action.completion_time is not None:
        return None
    if rules.mode is ExecutionMode.SEQUENTIAL and first_unfinished(status) != place.action:
        return None
    current = current_phase(action)
    if place.phase != DEFER:
        return action.phases[place.phase] if place.phase == current else None
    phases_have_ended = current is None or action.phases[current].state is State.FAILED
    return action.deferred if phases_have_ended else None


def _phase_at_work(rules: Rules, status: Status, place: Place) -> PhaseStatus | None:
    phase = _phase_in_turn(rules, status, place)
    return phase if phase is not None and phase.state is State.RUNNING else None


def _put_action(status: Status, index: int, action: ActionStatus) -> Status:
    actions = status.actions
    return status._replace(actions=(*actions[:index], action, *actions[index + 1 :]))


def _with_condition(status: Status, condition: Condition) -> Status:
    conditions = [other for other in status.conditions if other.type != condition.type]
    return status._replace(conditions=(*conditions, condition))


# Errors


def _first_error(
    before: RunError | None,
    action: ActionStatus,
    phase: PhaseStatus,
    place: Place,
    rule: RetryRule | None,
) -> RunError:
    """Return the error of the ActionSet: the first failure counts.

    A failure of the deferred phase is appended to an earlier failure of its action.
    """
    error = phase.error
    assert error is not None
    if before is not None and not (place.is_deferred and before.action == action.name):
        return before
    if place.is_deferred:
        where = f"Deferred phase {phase.name}".rstrip()
    else:
        where = f"Phase {phase.name or place.phase}"
    if phase.attempt:
        total = f" of {rule.limit + 1}" if rule is not None and rule.limit else ""
        result = f"failed at attempt {phase.attempt}{total}"
    else:
        result = "did not start"
    message = f"{where} of action {action.name} {result}: {_text_of(error)}"
    if before is not None:
        return before._replace(message=f"{before.message}{AFTER_THAT}{message}")
    return RunError(
        message=message,
        reason=error.reason,
        action=action.name,
        phase=phase.name,
        attempt=phase.attempt,
        exit_code=error.exit_code,
        log_tail=error.log_tail,
        problems=error.problems,
    )


def _text_of(error: PhaseError) -> str:
    """Format an error on one line, with its last log lines."""
    text = f"{error.message} ({error.reason}"
    if error.exit_code is not None:
        text += f", exit code {error.exit_code}"
    text += ")"
    if error.log_tail:
        text += f"; last log lines: {' | '.join(error.log_tail)}"
    return text


# Start and end


def refused_status(message: str, reason: str, now: datetime, action: str = "") -> Status:
    """Return the status of an ActionSet that cannot run at all: failed, without actions."""
    return _end(Status(error=RunError(message, reason, action)), now)


def status_for_retry(
    rules: Rules, status: Status, fresh: Status, from_phase: str = ""
) -> Status | None:
    """Return the initial status of a run that retries an earlier one.

    `fresh` is the status of a run that has not begun. Phases before `from_phase` are copied with
    their outputs; without `from_phase`, all phases before the first incomplete one. Returns None if
    no action has a phase `from_phase`, or if a phase before it is incomplete.
    """
    has_phase = False
    actions = []
    for index, (old, new) in enumerate(zip(status.actions, fresh.actions, strict=True)):
        at = current_phase(old)
        if at is None:
            at = len(old.phases)
        if from_phase:
            names = [phase.name for phase in rules.actions[index].phases]
            if from_phase in names and names.index(from_phase) <= at:
                at = names.index(from_phase)
                has_phase = True
        actions.append(new._replace(phases=(*old.phases[:at], *new.phases[at:])))
    if from_phase and not has_phase:
        return None
    times = [phase.completion_time for action in status.actions for phase in action.phases]
    latest = max(filter(None, (status.progress_time, *times)), default=LONG_AGO)
    return record_percent(new_status(actions), latest)


def _settle(rules: Rules, status: Status, now: datetime) -> Status:
    for index in range(len(status.actions)):
        status = _settle_action(rules, status, index, now)
    return _settle_actionset(rules, status, now)


def _settle_action(rules: Rules, status: Status, index: int, now: datetime) -> Status:
    """Close an action if it has nothing left to do."""
    if status.state is not State.RUNNING:
        return status
    action = status.actions[index]
    was_cancelled = bool(status.conditions) and status.condition(CANCEL_ASKED) is not None
    if action.completion_time is not None or (action.start_time is None and not was_cancelled):
        return status
    current = current_phase(action)
    is_good = current is None
    if current is not None and action.phases[current].state is not State.FAILED:
        return status
    # An action that was never launched has nothing for its deferred phase to clean up.
    if action.deferred is not None and action.start_time is not None:
        if action.deferred.state in (State.PENDING, State.RUNNING):
            return status
        is_good = is_good and action.deferred.state is State.COMPLETE
    if is_good and action.start_time is not None and rules.actions[index].has_artifacts:
        return status
    return _close_action(rules, status, index, now)


def _close_action(rules: Rules, status: Status, index: int, now: datetime) -> Status:
    action = status.actions[index]._replace(completion_time=now)
    if action.start_time is None and status.error is None:
        message = f"Action {action.name} was cancelled before it started"
        status = status._replace(error=RunError(message, CANCELLED, action.name))
    totals = status.totals._replace(open_actions=status.totals.open_actions - 1)
    status = _put_action(status, index, action)._replace(totals=totals)
    return _settle_actionset(rules, status, now)


def _settle_actionset(rules: Rules, status: Status, now: datetime) -> Status:
    if status.state is not State.RUNNING:
        return status
    if status.totals.open_actions == 0:
        return _end(status, now)
    if rules.mode is ExecutionMode.SEQUENTIAL and status.error is not None:
        first = first_unfinished(status)
        if first is None or status.actions[first].start_time is None:
            return _end(status, now)
    return status


def _end(status: Status, now: datetime) -> Status:
    """Make the status final."""
    error = status.error
    if error is None:
        condition = Condition(COMPLETE, True, COMPLETE, "", now)
        return _with_condition(status._replace(state=State.COMPLETE), condition)
    condition = Condition(FAILED, True, error.reason or FAILED, error.message, now)
    return _with_condition(status._replace(state=State.FAILED), condition)
