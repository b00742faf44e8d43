"""Course of a run: an ActionSet, its actions as defined in Blueprints, and its initial status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kanister_py.core.actionsets.model import ActionSet, ActionSpec, reference_as_dict
from kanister_py.core.actionsets.rules import ActionRules, PhaseRules, Rules
from kanister_py.core.actionsets.status import (
    DEFER,
    ActionStatus,
    PhaseStatus,
    Place,
    Status,
    Warned,
    new_status,
    warned_of,
)
from kanister_py.core.blueprints.model import Action, Blueprint, Phase
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.kube.durations import InvalidDuration, parse_seconds
from kanister_py.core.registry.choose import Choice
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.retries import RetryRule

_PHASE_RETRY: Final = RetryRule(limit=0)


class ActionCourse(NamedTuple):
    """Action of an ActionSet, resolved: its entry in the ActionSet and its Blueprint definition."""

    spec: ActionSpec
    blueprint: Blueprint
    action: Action

    def phase(self, index: int) -> Phase:
        if index == DEFER:
            assert self.action.defer_phase is not None
            return self.action.defer_phase
        return self.action.phases[index]


class Course(NamedTuple):
    """ActionSet with its resolved actions and their rules. Constant during a run."""

    actionset: ActionSet
    actions: tuple[ActionCourse, ...]
    rules: Rules

    def phase(self, place: Place) -> Phase:
        return self.actions[place.action].phase(place.phase)


def course_of(actionset: ActionSet, blueprints: Mapping[str, Blueprint]) -> Course:
    """Resolve the actions of an ActionSet. `blueprints` are keyed by name.

    Raises UsageError if a Blueprint or an action is missing.
    """
    actions = tuple([_action_course(spec, blueprints) for spec in actionset.spec.actions])
    rules = Rules(tuple(map(_rules_of, actions)), mode=actionset.spec.execution_mode)
    return Course(actionset, actions, rules)


def _action_course(spec: ActionSpec, blueprints: Mapping[str, Blueprint]) -> ActionCourse:
    blueprint = blueprints.get(spec.blueprint)
    if blueprint is None:
        known_names = f"; found {', '.join(sorted(blueprints))}" if blueprints else ""
        raise UsageError(
            f"The Blueprint {spec.blueprint} of action {spec.name} is missing: give its file "
            f"with -f as well{known_names}",
            reason="BlueprintNotFound",
        )
    if spec.name not in blueprint.actions:
        raise action_not_found(spec, spec.blueprint, blueprint)
    return ActionCourse(spec, blueprint, blueprint.actions[spec.name])


def action_not_found(spec: ActionSpec, name: str, blueprint: Blueprint) -> UsageError:
    """Build the error for an action that the Blueprint does not have."""
    known_actions = (
        f"; its actions are {', '.join(sorted(blueprint.actions))}" if blueprint.actions else ""
    )
    return UsageError(
        f"Action {spec.name} for object kind {spec.object.kind} not found in blueprint "
        f"{name}{known_actions}",
        reason="ActionNotFound",
    )


def _rules_of(course: ActionCourse) -> ActionRules:
    action = course.action
    return ActionRules(
        name=course.spec.name,
        phases=tuple(map(_phase_rules, action.phases)),
        deferred=_phase_rules(action.defer_phase) if action.defer_phase is not None else None,
        has_artifacts=bool(action.output_artifacts),
    )


def _phase_rules(phase: Phase) -> PhaseRules:
    try:
        return PhaseRules(
            phase.name,
            _PHASE_RETRY.overridden_by(phase.retry) if phase.retry is not None else None,
            parse_seconds(phase.timeout) if phase.timeout else None,
        )
    except InvalidDuration:
        # The preflight check reports invalid durations, so such an action never starts.
        return PhaseRules(phase.name, None, None)


def first_status(course: Course) -> Status:
    """Return the initial status of an ActionSet."""
    return new_status(map(_first_action_status, course.actions))


def _first_action_status(course: ActionCourse) -> ActionStatus:
    action = course.action
    deferred = action.defer_phase
    return ActionStatus(
        name=course.spec.name,
        object=MappingProxyType(reference_as_dict(course.spec.object)),
        blueprint=course.spec.blueprint,
        phases=tuple([PhaseStatus(phase.name) for phase in action.phases]),
        deferred=PhaseStatus(deferred.name) if deferred is not None else None,
    )


# Versions


class ChosenVersions(NamedTuple):
    """Chosen versions of the phases of one action; the deferPhase is last."""

    choices: tuple[Choice[FunctionEntry] | KanisterError, ...]
    """One entry per phase: the choice, or the error if no version could be chosen."""
    warnings: tuple[Warned, ...]

    versions: tuple[str, ...]
    """Chosen versions. Errors have no entry here, so it can be shorter than `choices`."""


def choose_versions(
    choose: Callable[[str, str, str], Choice[FunctionEntry]], course: ActionCourse
) -> ChosenVersions:
    """Choose the function version of every phase of an action. Collects errors, raises none.

    `choose` is called with the function, the `funcVersion` of the phase and the `preferredVersion`
    of the action.
    """
    choices: list[Choice[FunctionEntry] | KanisterError] = []
    warnings: list[Warned] = []
    versions: list[str] = []
    preferred = course.spec.preferred_version
    for _, phase in course.action.every_phase():
        try:
            choice = choose(phase.func, phase.func_version, preferred)
        except KanisterError as error:
            choices.append(error)
            continue
        choices.append(choice)
        versions.append(str(choice.chosen.version))
        warnings += [warned_of(notice, course.spec.name, phase.name) for notice in choice.notices]
    return ChosenVersions(tuple(choices), tuple(warnings), tuple(versions))
