"""Rules of a course: what the table of states must know of an ActionSet and its blueprints."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kanister_py.core.actionsets.status import DEFER
from kanister_py.core.retries import RetryRule


class ExecutionMode(StrEnum):
    """Whether the actions of an ActionSet run side by side or one after the other."""

    PARALLEL = "Parallel"
    SEQUENTIAL = "Sequential"


class PhaseRules(NamedTuple):
    """What the table must know of a phase."""

    name: str
    retry: RetryRule | None = None
    timeout_seconds: float | None = None


class ActionRules(NamedTuple):
    """What the table must know of an action."""

    name: str
    phases: tuple[PhaseRules, ...] = ()
    deferred: PhaseRules | None = None
    has_artifacts: bool = False

    def phase(self, index: int) -> PhaseRules:
        if index == DEFER:
            assert self.deferred is not None
            return self.deferred
        return self.phases[index]


class Rules(NamedTuple):
    """What the table must know of an ActionSet and its blueprints; never changes in a run."""

    actions: tuple[ActionRules, ...] = ()
    mode: ExecutionMode = ExecutionMode.PARALLEL
