"""Capabilities and ageing versions of a pipeline's functions, before any step runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kanister_py.core.compositions.model import Step
from kanister_py.core.errors import FunctionNotRegistered, FunctionVersionRemoved, UsageError
from kanister_py.core.notices import Notice
from kanister_py.core.registry.choose import FunctionRevisionNotFound, choose_revision
from kanister_py.core.registry.entries import (
    DesiredState,
    FunctionRevision,
    Registry,
    RegistryBuilder,
)
from kanister_py.core.revisions.package import COMPOSITION, has_capability


class FunctionCapabilityMissing(UsageError, reason="MissingCapabilities"):
    """A step would call a revision whose package is made for something else."""

    def __init__(self, revision: FunctionRevision, others: Sequence[str]) -> None:
        named = f"name {' or '.join(others)} in functionRevisionRef, or " if others else ""
        super().__init__(
            f"Active revision {revision.name} of function {revision.function} is made for "
            f"{', '.join(sorted(revision.capabilities))}, not for {COMPOSITION}; {named}install "
            f"a package of it whose spec.capabilities lists {COMPOSITION}"
        )
        self.function = revision.function
        self.revision = revision.name
        self.others = tuple(others)


def check_capability(revision: FunctionRevision, family: Iterable[FunctionRevision]) -> None:
    """Refuse the revision that a step calls if its package is made for something else.

    It is not passed over for a lower one that would do: the highest that is routable
    serves, and a step that went back unasked would hide that this one cannot. One that
    does not say what it is made for is called.
    """
    if not revision.capabilities:
        return
    if has_capability(revision.capabilities, COMPOSITION):
        return
    others = [
        each.name
        for each in family
        if each.desired_state is DesiredState.ACTIVE
        and has_capability(each.capabilities, COMPOSITION)
    ]
    raise FunctionCapabilityMissing(revision, others)


class PipelineCheck(NamedTuple):
    """Errors and notices that steps would meet, by their names."""

    errors: Mapping[str, FunctionCapabilityMissing | FunctionVersionRemoved]
    notices: Mapping[str, Sequence[Notice]]


def check_pipeline(steps: Iterable[Step], functions: Registry[FunctionRevision]) -> PipelineCheck:
    """Say of each step that the revision it would call is not made for composing, or is ageing.

    That is the highest which it allows of those that are meant to serve, whether or not
    they do: what a package is made for does not come and go with its pods, and people
    should hear of it before the first resource is refused. Where there is none, nothing
    is missing yet.
    """
    errors: dict[str, FunctionCapabilityMissing | FunctionVersionRemoved] = {}
    notices: dict[str, Sequence[Notice]] = {}
    for step in steps:
        try:
            meant = _as_meant(step.function, functions)
            choice = choose_revision(meant, step.function, step.revision)
            check_capability(choice.chosen, meant.family(step.function))
        except (FunctionNotRegistered, FunctionRevisionNotFound):
            continue
        except (FunctionCapabilityMissing, FunctionVersionRemoved) as error:
            errors[step.name] = error
        else:
            if choice.notices:
                notices[step.name] = choice.notices
    return PipelineCheck(errors, notices)


def _as_meant(function: str, functions: Registry[FunctionRevision]) -> Registry[FunctionRevision]:
    """Give the revisions of one function as they will be once all that is active serves."""
    builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
    builder.add(
        [
            each._replace(is_healthy=True, endpoint=each.endpoint or "to come")
            for each in functions.family(function)
        ]
    )
    return builder.build()
