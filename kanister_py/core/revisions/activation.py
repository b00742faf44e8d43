"""Activation: the choice of a function's active revisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from kanister_py.core.registry.entries import DesiredState, FunctionRevision

DEFAULT_ACTIVE_LIMIT = 1
DEFAULT_HISTORY_LIMIT = 1


class ActivationPolicy(StrEnum):
    """Whether revisions are activated automatically or by users."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class Activation(NamedTuple):
    """Revisions to activate and deactivate.

    `held` revisions exceed the limit, but stay active until the newest one is routable.
    """

    activate: tuple[str, ...] = ()
    deactivate: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


def plan_activation(
    revisions: Sequence[FunctionRevision],
    limit: int = DEFAULT_ACTIVE_LIMIT,
    policy: ActivationPolicy = ActivationPolicy.AUTOMATIC,
) -> Activation:
    """Plan the activation of the revisions with the highest numbers, without interrupting calls.

    The newest revision is activated at once. Until it is routable (active, healthy and with an
    endpoint), the highest routable revision beyond the limit stays active as well. With the
    policy `Manual` nothing changes.
    """
    if policy is ActivationPolicy.MANUAL or not revisions:
        return Activation()
    ordered = sorted(revisions, key=lambda revision: revision.rank, reverse=True)
    newest, older = ordered[:limit], ordered[limit:]
    surplus = [revision for revision in older if revision.desired_state is DesiredState.ACTIVE]
    held: list[FunctionRevision] = []
    if not ordered[0].is_routable:
        held = [revision for revision in surplus if revision.is_routable][:1]
    return Activation(
        tuple(
            revision.name
            for revision in newest
            if revision.desired_state is not DesiredState.ACTIVE
        ),
        tuple(revision.name for revision in surplus if revision not in held),
        tuple(revision.name for revision in held),
    )


def history_limit_of(history_limit: int | None, active_limit: int | None) -> int:
    """Return the number of revisions to keep. The default is the limit of active revisions."""
    if history_limit is not None:
        return history_limit
    return max(DEFAULT_HISTORY_LIMIT, active_limit or DEFAULT_ACTIVE_LIMIT)


def problems_of_limits(
    active_limit: int | None, history_limit: int | None, *, is_function: bool = True
) -> Iterator[tuple[str, str]]:
    """Yield problems with the limits of a package: a field and a message.

    A history limit of 0 keeps all revisions, so it does not restrict the active ones.
    """
    active = DEFAULT_ACTIVE_LIMIT if active_limit is None else active_limit
    history = history_limit_of(history_limit, active_limit)
    if history < 0:
        yield "revisionHistoryLimit", f"Must be 0 (keep all) or more, not {history}"
    if active < 1:
        yield "activeRevisionLimit", f"Must be at least 1, not {active}"
    elif not is_function and active != 1:
        yield "activeRevisionLimit", f"Must be 1 for anything but a Function, not {active}"
    elif 0 < history < active:
        hint = f"set revisionHistoryLimit to {active} or more, or leave it out"
        problem = f"Must be no more than revisionHistoryLimit, which is {history}, not {active}"
        yield "activeRevisionLimit", f"{problem}; {hint}"
