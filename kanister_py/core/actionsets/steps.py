"""State machine of an ActionSet, part 1: the next steps for a status.

Part 2 is `transitions.record`, which returns the status after an outcome. Both are pure functions,
so command line, controller and tests behave the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from kanister_py.core.actionsets.rules import ActionRules, ExecutionMode, PhaseRules, Rules
from kanister_py.core.actionsets.status import (
    CANCEL_ASKED,
    CANCELLED,
    DEFER,
    FINAL,
    SUSPENDED,
    ActionStatus,
    Condition,
    PhaseStatus,
    Place,
    State,
    Status,
)
from kanister_py.core.retries import RetryRule


@dataclass(frozen=True, slots=True)
class Begin:
    """Choose the version of every function. Always the first step."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Read the data for the templates of an action, and check that it can start."""

    action: int


@dataclass(frozen=True, slots=True)
class StartPhase:
    """Start an attempt of a phase. The start is recorded first."""

    place: Place
    attempt: int


@dataclass(frozen=True, slots=True)
class ContinuePhase:
    """Resume an attempt that was in progress when its process died.

    The function decides whether it can be resumed; otherwise the phase fails as interrupted.
    """

    place: Place
    attempt: int


@dataclass(frozen=True, slots=True)
class StopPhase:
    """Stop a running phase. Its worker then records the end of the phase as an outcome."""

    place: Place


@dataclass(frozen=True, slots=True)
class RefusePhase:
    """Fail a phase without starting it, because the ActionSet has been cancelled."""

    place: Place
    reason: str = CANCELLED
    message: str = ""


@dataclass(frozen=True, slots=True)
class WaitForRetry:
    """Wait until this time before the next attempt of a phase."""

    place: Place
    until: datetime


@dataclass(frozen=True, slots=True)
class RenderArtifacts:
    """Render the output artifacts of an action. All its phases are complete."""

    action: int


Step: TypeAlias = (
    Begin
    | Launch
    | StartPhase
    | ContinuePhase
    | StopPhase
    | RefusePhase
    | WaitForRetry
    | RenderArtifacts
)


_NO_TIMERS: Final[Mapping[Place, bool]] = {}


class _Moment(NamedTuple):
    """Inputs of a decision, apart from the rules and the status."""

    now: datetime
    in_progress: Container[Place]
    elapsed: Mapping[Place, bool]
    cancel: Condition | None
    is_suspended: bool


def next_steps(
    rules: Rules,
    status: Status,
    now: datetime,
    *,
    in_progress: Container[Place] = (),
    elapsed: Mapping[Place, bool] = _NO_TIMERS,
    action: int | None = None,
) -> list[Step]:
    """Return all steps that can be taken now.

    The list is empty if the ActionSet has ended, or if it must wait: for running phases, or to be
    resumed after a suspension. `in_progress` are the phases that run in this process.

    `elapsed` contains the phases with a retry timer in this process, and whether it has elapsed.
    For other phases, `now` is compared with the stored time, which is less reliable because the
    clock may have been set in between. `action` limits the result to one action, which is
    sufficient after an outcome that affects no other action.
    """
    if status.state in FINAL:
        return []
    cancel, is_suspended = None, False
    if status.conditions:
        cancel = status.condition(CANCEL_ASKED)
        is_suspended = cancel is None and is_true(status.condition(SUSPENDED))
    if status.state is State.PENDING:
        return [] if is_suspended else [Begin()]
    if rules.mode is ExecutionMode.SEQUENTIAL:
        first = first_unfinished(status)
        chosen: Iterable[int] = () if first is None else (first,)
    elif status.totals.unlaunched and cancel is None:
        # Launch all actions before the first phase of any of them starts. An action that cannot
        # start is then detected while nothing has been changed yet.
        indices = range(len(status.actions)) if action is None else (action,)
        return [
            Launch(index)
            for index in indices
            if status.actions[index].start_time is None and not is_suspended
        ]
    else:
        chosen = range(len(status.actions)) if action is None else (action,)
    moment = _Moment(now, in_progress, elapsed, cancel, is_suspended)
    steps: list[Step] = []
    for index in chosen:
        step = _next_of_action(rules.actions[index], status.actions[index], index, moment)
        if step is not None:
            steps.append(step)
    return steps


def _next_of_action(
    rules: ActionRules, action: ActionStatus, index: int, moment: _Moment
) -> Step | None:
    cancel = moment.cancel
    if action.completion_time is not None:
        return None
    if action.start_time is None and cancel is None:
        return None if moment.is_suspended else Launch(index)
    if action.start_time is None and not action.phases:
        return None
    current = current_phase(action)
    if current is not None and action.phases[current].state is not State.FAILED:
        place = Place(index, current)
        step = _next_of_phase(rules.phases[current], action.phases[current], place, moment)
        if cancel is None:
            return step
        if isinstance(step, StartPhase | WaitForRetry):
            return RefusePhase(place, cancel.reason, cancel.message)
        return StopPhase(place) if step is None else step
    if action.deferred is not None and action.deferred.state in (State.PENDING, State.RUNNING):
        # Deferred phases are neither cancelled nor suspended.
        moment = moment._replace(is_suspended=False)
        return _next_of_phase(rules.phase(DEFER), action.deferred, Place(index, DEFER), moment)
    if current is None and rules.has_artifacts:
        return RenderArtifacts(index)
    return None


def _next_of_phase(
    rules: PhaseRules, phase: PhaseStatus, place: Place, moment: _Moment
) -> Step | None:
    if phase.state is State.RUNNING:
        return None if place in moment.in_progress else ContinuePhase(place, phase.attempt)
    if moment.is_suspended:
        return None
    retry_time = _retry_due(rules.retry, phase, moment.now)
    is_elapsed = moment.elapsed.get(place, retry_time is None or retry_time <= moment.now)
    if retry_time is None or is_elapsed:
        return StartPhase(place, phase.attempt + 1)
    return WaitForRetry(place, retry_time)


def _retry_due(rule: RetryRule | None, phase: PhaseStatus, now: datetime) -> datetime | None:
    """Return the time of the next attempt of a phase, or None if it can start at once.

    The clock may have been set back since the time was stored. The remaining wait is therefore
    limited to the delay of the retry rule.
    """
    retry_time = phase.retry_time
    if retry_time is None or rule is None:
        return retry_time
    min_delay = phase.error.delay_seconds if phase.error is not None else 0.0
    return min(retry_time, now + timedelta(seconds=rule.delay_after(phase.attempt, min_delay)))


def current_phase(action: ActionStatus) -> int | None:
    """Return the index of the first phase that is not complete (it may have failed), or None."""
    phases = action.phases
    # Phases complete in order, so a binary search is sufficient.
    if not phases or phases[-1].state is State.COMPLETE:
        return None
    if phases[0].state is not State.COMPLETE:
        return 0
    return bisect_left(phases, True, key=_is_not_complete)


def _is_not_complete(phase: PhaseStatus) -> bool:
    return phase.state is not State.COMPLETE


def first_unfinished(status: Status) -> int | None:
    """Return the index of the first action that has not ended, or None.

    Actions do not always end in order: an action without phases ends when the run is cancelled,
    while an earlier one may still have a phase in progress.
    """
    return next((i for i, action in enumerate(status.actions) if is_unfinished(action)), None)


def is_unfinished(action: ActionStatus) -> bool:
    """Return whether an action has not ended."""
    return action.completion_time is None


def is_true(condition: Condition | None) -> bool:
    """Return whether a condition exists and is true."""
    return condition is not None and condition.is_true
