"""Errors of ActionSets: which failure of a phase counts, and what is said of it."""

from __future__ import annotations

from kanister_py.core.actionsets.status import (
    ActionStatus,
    PhaseError,
    PhaseStatus,
    Place,
    RunError,
)
from kanister_py.core.retries import RetryRule


def first_error(
    before: RunError | None,
    action: ActionStatus,
    phase: PhaseStatus,
    place: Place,
    rule: RetryRule | None,
) -> RunError:
    """Say why the ActionSet failed: the first failure counts.

    A deferred phase that fails takes the place of what failed before it in its
    own action, and tells of it.
    """
    assert phase.error is not None
    if before is not None and not (place.is_deferred and before.action == action.name):
        return before
    return described_error(before, action, phase, place, rule)


def described_error(
    before: RunError | None,
    action: ActionStatus,
    phase: PhaseStatus,
    place: Place,
    rule: RetryRule | None,
) -> RunError:
    """Say of a phase that failed what the ActionSet says, and what failed before it."""
    error = phase.error
    assert error is not None
    if place.is_deferred:
        where = f"Deferred phase {phase.name}".rstrip()
    else:
        where = f"Phase {phase.name or place.phase}"
    if phase.attempt:
        most = f" of {rule.limit + 1}" if rule is not None and rule.limit else ""
        how = f"failed at attempt {phase.attempt}{most}"
    else:
        how = "did not start"
    message = f"{where} of action {action.name} {how}: {told_error(error)}"
    if before is not None:
        message += f"; before that: {before.message}"
    return RunError(
        message=message,
        reason=error.reason,
        action=action.name,
        phase=phase.name,
        attempt=phase.attempt,
        exit_code=error.exit_code,
        log_tail=error.log_tail,
    )


def told_error(error: PhaseError) -> str:
    """Write an error in one line, with what was logged last."""
    text = f"{error.message} ({error.reason}"
    if error.exit_code is not None:
        text += f", exit code {error.exit_code}"
    text += ")"
    if error.log_tail:
        text += f"; last log lines: {' | '.join(error.log_tail)}"
    return text
