"""Activation: the revisions of a function that are meant to serve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from kanister_py.core.registry.entries import DesiredState, FunctionRevision

DEFAULT_ACTIVE_LIMIT = 1
DEFAULT_HISTORY_LIMIT = 1


class ActivationPolicy(StrEnum):
    """Whether the active revisions are chosen by us or by people."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class Activation(NamedTuple):
    """Revisions that change, and those kept beyond the limit until the newest serves."""

    activate: tuple[str, ...] = ()
    deactivate: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


def plan_activation(
    revisions: Sequence[FunctionRevision],
    limit: int = DEFAULT_ACTIVE_LIMIT,
    policy: ActivationPolicy = ActivationPolicy.AUTOMATIC,
) -> Activation:
    """Keep the highest numbers active, and make before break.

    The newest is active at once. What it displaces goes when the newest serves; until
    then the highest of those that serve stays, one more than the limit says. Under
    `Manual` nothing is touched, whatever the limit.
    """
    if policy is ActivationPolicy.MANUAL or not revisions:
        return Activation()
    ordered = sorted(revisions, key=lambda each: each.rank, reverse=True)
    wanted, rest = ordered[:limit], ordered[limit:]
    surplus = [each for each in rest if each.desired_state is DesiredState.ACTIVE]
    held: list[FunctionRevision] = []
    if not ordered[0].is_routable:
        held = [each for each in surplus if each.is_routable][:1]
    return Activation(
        tuple(each.name for each in wanted if each.desired_state is not DesiredState.ACTIVE),
        tuple(each.name for each in surplus if each not in held),
        tuple(each.name for each in held),
    )


def history_limit_of(history_limit: int | None, active_limit: int | None) -> int:
    """Say how many revisions are kept: unless that is set, as many as may be active."""
    if history_limit is not None:
        return history_limit
    return max(DEFAULT_HISTORY_LIMIT, active_limit or DEFAULT_ACTIVE_LIMIT)


def problems_of_limits(
    active_limit: int | None, history_limit: int | None, *, is_function: bool = True
) -> Iterator[tuple[str, str]]:
    """Find what is wrong with the limits of a package, each with its field.

    A history limit of 0 keeps all revisions, and so bounds nothing.
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
