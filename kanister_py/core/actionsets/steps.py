"""Next steps of an ActionSet: the half of the table of states with what may be done.

The other half is `record`, which says what becomes of it. Both are pure, so that a
laptop, a controller and a test come to the same end.
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
    """Choice of the version of every function, before anything else."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Search for what the templates of an action see."""

    action: int


@dataclass(frozen=True, slots=True)
class StartPhase:
    """Start of an attempt, which is recorded first."""

    place: Place
    attempt: int


@dataclass(frozen=True, slots=True)
class ContinuePhase:
    """Continuation of an attempt that was under way when its process died.

    Whether it can be taken up is for its function to say; if it cannot, the
    phase fails as interrupted.
    """

    place: Place
    attempt: int


@dataclass(frozen=True, slots=True)
class StopPhase:
    """Stop of a phase at work. It ends by itself."""

    place: Place


@dataclass(frozen=True, slots=True)
class RefusePhase:
    """Failure of a phase that never started: the ActionSet has been cancelled."""

    place: Place
    reason: str = CANCELLED
    message: str = ""


@dataclass(frozen=True, slots=True)
class WaitForRetry:
    """Nothing to do for a phase before this time."""

    place: Place
    until: datetime


@dataclass(frozen=True, slots=True)
class RenderArtifacts:
    """Rendering of the output artifacts of an action, whose phases are all complete."""

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


_UNMEASURED: Final[Mapping[Place, bool]] = {}


class _Look(NamedTuple):
    """The moment of a look at a status, and what is under way in it."""

    now: datetime
    working: Container[Place]
    rested: Mapping[Place, bool]
    cancel: Condition | None
    is_suspended: bool


def next_steps(
    rules: Rules,
    status: Status,
    now: datetime,
    *,
    working: Container[Place] = (),
    rested: Mapping[Place, bool] = _UNMEASURED,
    action: int | None = None,
) -> list[Step]:
    """Say everything that may be done now; nothing means: wait for what is under way.

    `working` are the phases that are being carried out at this moment. Of phases whose
    wait for another try was measured, `rested` says whether it is over; for
    others `now` decides, which may come from a clock that was set meanwhile. With
    `action`, only that one is looked at, which is enough after an outcome that
    concerns no other.
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
        one = first_open(status)
        chosen: Iterable[int] = () if one is None else (one,)
    elif status.totals.unlaunched and cancel is None:
        # Whatever cannot even start must be known before anything acts.
        every = range(len(status.actions)) if action is None else (action,)
        return [
            Launch(index)
            for index in every
            if status.actions[index].start_time is None and not is_suspended
        ]
    else:
        chosen = range(len(status.actions)) if action is None else (action,)
    look = _Look(now, working, rested, cancel, is_suspended)
    steps: list[Step] = []
    for index in chosen:
        step = _next_of_action(rules.actions[index], status.actions[index], index, look)
        if step is not None:
            steps.append(step)
    return steps


def _next_of_action(
    rules: ActionRules, action: ActionStatus, index: int, look: _Look
) -> Step | None:
    cancel = look.cancel
    if action.completion_time is not None:
        return None
    if action.start_time is None and cancel is None:
        return None if look.is_suspended else Launch(index)
    if action.start_time is None and not action.phases:
        return None
    current = current_phase(action)
    if current is not None and action.phases[current].state is not State.FAILED:
        place = Place(index, current)
        step = _next_of_phase(rules.phases[current], action.phases[current], place, look)
        if cancel is None:
            return step
        if isinstance(step, StartPhase | WaitForRetry):
            return RefusePhase(place, cancel.reason, cancel.message)
        return StopPhase(place) if step is None else step
    if action.deferred is not None and action.deferred.state in (State.PENDING, State.RUNNING):
        # Cleaning up is not cancelled and does not wait.
        look = look._replace(is_suspended=False)
        return _next_of_phase(rules.phase(DEFER), action.deferred, Place(index, DEFER), look)
    if current is None and rules.has_artifacts:
        return RenderArtifacts(index)
    return None


def _next_of_phase(rules: PhaseRules, phase: PhaseStatus, place: Place, look: _Look) -> Step | None:
    if phase.state is State.RUNNING:
        return None if place in look.working else ContinuePhase(place, phase.attempt)
    if look.is_suspended:
        return None
    due = _retry_due(rules.retry, phase, look.now)
    is_rested = look.rested.get(place, due is None or due <= look.now)
    if due is None or is_rested:
        return StartPhase(place, phase.attempt + 1)
    return WaitForRetry(place, due)


def _retry_due(rule: RetryRule | None, phase: PhaseStatus, now: datetime) -> datetime | None:
    """Say when a phase is tried again; None if there is nothing to wait for.

    The time was written down by a clock that may have been set since: no phase waits from
    now on for longer than they would have to after the failure.
    """
    due = phase.retry_time
    if due is None or rule is None:
        return due
    least = phase.error.delay_seconds if phase.error is not None else 0.0
    return min(due, now + timedelta(seconds=rule.delay_after(phase.attempt, least)))


def current_phase(action: ActionStatus) -> int | None:
    """Find the first phase that is not complete; None if there is none."""
    phases = action.phases
    # Phases are completed in order, so there is no need to look at each.
    if not phases or phases[-1].state is State.COMPLETE:
        return None
    if phases[0].state is not State.COMPLETE:
        return 0
    return bisect_left(phases, True, key=_is_not_complete)


def _is_not_complete(phase: PhaseStatus) -> bool:
    return phase.state is not State.COMPLETE


def first_open(status: Status) -> int | None:
    """Find the first action that has not ended; None if all have."""
    at = bisect_left(status.actions, True, key=is_open)
    return at if at < len(status.actions) else None


def is_open(action: ActionStatus) -> bool:
    """Say whether an action has not ended."""
    return action.completion_time is None


def is_true(condition: Condition | None) -> bool:
    """Say whether a condition is there and true."""
    return condition is not None and condition.is_true
