"""Changes of the status of phases, with incremental updates of the totals and the percentage."""

from __future__ import annotations

from datetime import datetime

from kanister_py.core.actionsets.status import DEFER, PhaseStatus, Place, State, Status

DONE = 100


def record_percent(status: Status, now: datetime) -> Status:
    """Set the percentage of an ActionSet: the average of its phases, rounded down.

    Deferred phases do not count. `progress_time` changes only if the percentage changes.
    """
    totals = status.totals
    percent = totals.percents // totals.phases if totals.phases else 0
    if percent == (status.percent or 0):
        return status
    return status._replace(percent=percent, progress_time=now)


def record_phase(status: Status, place: Place, phase: PhaseStatus) -> Status:
    """Replace the status of a phase, and update the totals of the ActionSet."""
    action = status.actions[place.action]
    before = action.phase(place.phase)
    totals = status.totals
    running = totals.running
    if before.state is not phase.state:
        if phase.state is State.RUNNING:
            running = (*running, place)
        elif before.state is State.RUNNING:
            running = tuple(running_place for running_place in running if running_place != place)
    is_same = phase.output is before.output
    counted = 0 if place.phase == DEFER else (phase.percent or 0) - (before.percent or 0)
    totals = totals._replace(
        percents=totals.percents + counted,
        output_bytes=totals.output_bytes
        + (0 if is_same else _output_bytes(phase) - _output_bytes(before)),
        running=running,
    )
    if place.phase == DEFER:
        action = action._replace(deferred=phase)
    else:
        phases = action.phases
        phases = (*phases[: place.phase], phase, *phases[place.phase + 1 :])
        action = action._replace(phases=phases)
    actions = status.actions
    actions = (*actions[: place.action], action, *actions[place.action + 1 :])
    return status._replace(actions=actions, totals=totals)


def _output_bytes(phase: PhaseStatus) -> int:
    return phase.output.size_bytes if phase.output is not None else 0
