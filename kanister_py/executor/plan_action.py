"""Reads what an action's templates would see, and plans its phases without running any."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from kanister_py.core.actionsets.course import ActionNotFound
from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.model import ActionSpec
from kanister_py.core.blueprints.model import Blueprint, Phase
from kanister_py.core.blueprints.plan import Known, PlannedPhase, choose_phase_version
from kanister_py.core.blueprints.reads import reads_of_action
from kanister_py.core.blueprints.renderer import renderer_of
from kanister_py.core.errors import KanisterError
from kanister_py.core.objects.parts import spec_of
from kanister_py.core.registry.choose import Choice
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.core.templates.params import Params
from kanister_py.core.versions.semver import Version
from kanister_py.executor.fetch_facts import OF_PODS, OwnerMissing, fetch_facts
from kanister_py.executor.foresee import MISSING, foresee, unused_options
from kanister_py.executor.loading import load_function
from kanister_py.gotemplate import Effects
from kanister_py.ports.cluster import Cluster


class Plan(NamedTuple):
    """The phases of an action in the order they would run, and what could not be read.

    `errors` say what is wrong with the action besides its phases.
    """

    blueprint: str
    action: str
    phases: tuple[PlannedPhase, ...]
    unread: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        data = {
            "blueprint": self.blueprint,
            "action": self.action,
            "unread": list(self.unread),
            "phases": [each.as_dict() for each in self.phases],
        }
        if self.errors:
            data["errors"] = list(self.errors)
        return data

    @property
    def has_errors(self) -> bool:
        return bool(self.errors) or any(each.error for each in self.phases)


class Circumstances(NamedTuple):
    """What a plan is made for: the functions there are, the releases, the moment."""

    registry: Registry[FunctionEntry]
    time: datetime
    effects: Effects
    at: Mapping[str, Version] = {}
    is_strict: bool = False


def plan_action(
    blueprint: Blueprint, spec: ActionSpec, cluster: Cluster, given: Circumstances
) -> Plan:
    """Plan an action. Only reads the cluster; what is not there is shown as not known.

    Secrets that were read are masked wherever they would appear.
    """
    action = blueprint.actions.get(spec.name)
    if action is None:
        known_names = sorted(blueprint.actions)
        raise ActionNotFound(spec.name, spec.object.kind, blueprint.name, known_names)
    fetched = fetch_facts(cluster, spec, given.time)
    # A plan may be given less than a run: what is not there is no error. Where
    # nothing runs pods, a workload may be there, and what stands between it and its
    # pods may not.
    unread = [
        each.error.message for each in fetched.missing if not isinstance(each.error, OwnerMissing)
    ]
    params = Params(fetched.facts)
    renderer = renderer_of(blueprint, spec.name, given.effects)
    known = Known(
        renderer,
        params,
        load_function,
        _pods_to_come(fetched.facts),
        unused=unused_options(spec, [*reads_of_action(action, renderer.engine)]),
        preferred=spec.preferred_version,
    )
    choices = [_choice(each, spec, given) for _, each in action.every_phase()]
    seen = foresee(blueprint, spec.name, choices, known, cluster)
    masker = Masker(params.secret_texts())
    phases = [_masked(_without_missing(each, unread), masker) for each in seen.phases]
    errors = [masker.mask(each.message) for each in seen.obstacles if each.phase is None]
    return Plan(
        blueprint.name,
        spec.name,
        tuple(phases),
        tuple(dict.fromkeys((*unread, *seen.unchecked))),
        tuple(errors),
    )


def _choice(
    phase: Phase, spec: ActionSpec, given: Circumstances
) -> Choice[FunctionEntry] | KanisterError:
    try:
        return choose_phase_version(
            given.registry, phase, spec.preferred_version, at=given.at, strict=given.is_strict
        )
    except KanisterError as error:
        return error


def _without_missing(phase: PlannedPhase, unread: list[str]) -> PlannedPhase:
    """Take what is not in the cluster for what the plan was not given."""
    unread += [each.message for each in phase.obstacles if each.reason == MISSING]
    told = [each.message for each in phase.obstacles if each.reason != MISSING]
    return phase._replace(error="; ".join(told))


def _pods_to_come(facts: ActionFacts) -> Mapping[tuple[str, ...], str]:
    """Name what templates see of a workload's pods, if none of them runs yet."""
    workload = facts.workload
    is_empty = spec_of(facts.object or {}).get("replicas") == 0
    if workload is None or workload.pods or is_empty:
        return {}
    root = next(
        name
        for name, each in (
            ("StatefulSet", facts.stateful_set),
            ("Deployment", facts.deployment),
            ("DeploymentConfig", facts.deployment_config),
        )
        if each is not None
    )
    why = f"the pods of {root} {workload.name} do not run yet"
    return {(root, field): why for field in OF_PODS}


def _masked(phase: PlannedPhase, masker: Masker) -> PlannedPhase:
    return phase._replace(
        args=masker.mask_data(dict(phase.args)),
        condition=masker.mask(phase.condition),
        error=masker.mask(phase.error),
        unknown=tuple(each._replace(why=masker.mask(each.why)) for each in phase.unknown),
        accesses=tuple(
            each._replace(namespace=masker.mask(each.namespace), name=masker.mask(each.name))
            for each in phase.accesses
        ),
    )
