"""Rules of a run: the parts of Blueprints that `next_steps` and `record` need."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kanister_py.core.actionsets.status import DEFER
from kanister_py.core.retries import RetryRule


class ExecutionMode(StrEnum):
    """Order of the actions of an ActionSet: at the same time, or one after the other."""

    PARALLEL = "Parallel"
    SEQUENTIAL = "Sequential"


class PhaseRules(NamedTuple):
    """Rules of a phase."""

    name: str
    retry: RetryRule | None = None
    timeout_seconds: float | None = None


class ActionRules(NamedTuple):
    """Rules of an action."""

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
    """Rules of an ActionSet. Constant during a run."""

    actions: tuple[ActionRules, ...] = ()
    mode: ExecutionMode = ExecutionMode.PARALLEL
