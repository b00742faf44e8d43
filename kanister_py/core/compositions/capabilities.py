"""Checks of a pipeline's functions before any step runs: capabilities and versions."""

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
    """A step would call a revision whose package does not declare the capability `composition`."""

    def __init__(self, revision: FunctionRevision, alternatives: Sequence[str]) -> None:
        named = (
            f"name {' or '.join(alternatives)} in functionRevisionRef, or " if alternatives else ""
        )
        super().__init__(
            f"Active revision {revision.name} of function {revision.function} is made for "
            f"{', '.join(sorted(revision.capabilities))}, not for {COMPOSITION}; {named}install "
            f"a package of it whose spec.capabilities lists {COMPOSITION}"
        )
        self.function = revision.function
        self.revision = revision.name
        self.alternatives = tuple(alternatives)


def check_capability(revision: FunctionRevision, family: Iterable[FunctionRevision]) -> None:
    """Raise `FunctionCapabilityMissing` if a revision's package is not made for compositions.

    No lower revision is chosen instead: falling back silently would hide that the highest
    active revision cannot be used. A package without a list of capabilities is accepted.
    """
    if not revision.capabilities:
        return
    if has_capability(revision.capabilities, COMPOSITION):
        return
    alternatives = [
        revision.name
        for revision in family
        if revision.desired_state is DesiredState.ACTIVE
        and has_capability(revision.capabilities, COMPOSITION)
    ]
    raise FunctionCapabilityMissing(revision, alternatives)


class PipelineCheck(NamedTuple):
    """Errors and notices of the steps of a pipeline, by step name."""

    errors: Mapping[str, FunctionCapabilityMissing | FunctionVersionRemoved]
    notices: Mapping[str, Sequence[Notice]]


def check_pipeline(steps: Iterable[Step], functions: Registry[FunctionRevision]) -> PipelineCheck:
    """Find steps whose function lacks the capability, or whose version is removed or deprecated.

    Checks the highest active revision that a step allows, healthy or not: capabilities do
    not depend on running pods, and users should see the problem before the first composite
    resource fails. Steps without such a revision are skipped.
    """
    errors: dict[str, FunctionCapabilityMissing | FunctionVersionRemoved] = {}
    notices: dict[str, Sequence[Notice]] = {}
    for step in steps:
        try:
            active = _assuming_healthy(step.function, functions)
            choice = choose_revision(active, step.function, step.revision)
            check_capability(choice.chosen, active.family(step.function))
        except (FunctionNotRegistered, FunctionRevisionNotFound):
            continue
        except (FunctionCapabilityMissing, FunctionVersionRemoved) as error:
            errors[step.name] = error
        else:
            if choice.notices:
                notices[step.name] = choice.notices
    return PipelineCheck(errors, notices)


def _assuming_healthy(
    function: str, functions: Registry[FunctionRevision]
) -> Registry[FunctionRevision]:
    """Return the revisions of a function as if all active ones were healthy."""
    builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
    builder.add(
        [
            revision._replace(is_healthy=True, endpoint=revision.endpoint or "to come")
            for revision in functions.family(function)
        ]
    )
    return builder.build()
