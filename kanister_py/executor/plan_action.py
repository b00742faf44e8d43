"""Plan of an action: its phases as they would run, from what its templates would see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from kanister_py.core.actionsets.course import action_not_found
from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.model import ActionSpec
from kanister_py.core.blueprints.analysis import ActionAnalysis
from kanister_py.core.blueprints.model import Blueprint, Phase
from kanister_py.core.blueprints.plan import (
    PlanBasis,
    PlannedPhase,
    Unknown,
    choose_phase_version,
    renderer_of,
)
from kanister_py.core.errors import KanisterError, NotFound, ObjectNotFetched
from kanister_py.core.kube.parts import spec_of
from kanister_py.core.registry.choose import Choice
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.core.templates.params import Params
from kanister_py.core.versions.semver import Version
from kanister_py.executor.fetch_facts import OF_PODS, OwnerMissing, fetch_facts
from kanister_py.executor.loading import load_function
from kanister_py.executor.preflight import (
    MISSING,
    messages_of_missing_inputs,
    run_preflight,
    unused_options,
)
from kanister_py.gotemplate.effects import Effects
from kanister_py.ports.cluster import Cluster


class Plan(NamedTuple):
    """The phases of an action in the order they would run, and what could not be read.

    `errors` say what is wrong with the action besides its phases, `unchecked` which objects
    and declared inputs are not there and may be in time, and `unknown` what is not known yet
    of the artifacts.
    """

    blueprint: str
    action: str
    phases: tuple[PlannedPhase, ...]
    unread: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        data = {
            "blueprint": self.blueprint,
            "action": self.action,
            "unread": [*self.unread, *self.unchecked],
            "phases": [each.as_dict() for each in self.phases],
        }
        if self.unknown:
            data["unknown"] = [each.as_dict() for each in self.unknown]
        if self.errors:
            data["errors"] = list(self.errors)
        return data

    @property
    def has_errors(self) -> bool:
        return bool(self.errors) or any(each.errors for each in self.phases)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Say why each text that is not known is not, but for what phases will give."""
        to_run = [each for each in self.phases if not each.skipped]
        every = (*self.unknown, *(one for each in to_run for one in each.unknown))
        return tuple(each.why for each in every if each.why)


class Circumstances(NamedTuple):
    """Circumstances of a plan: the functions there are, the releases, the moment.

    `is_real`: the cluster is the one to run on, so what is not there is an error.
    """

    registry: Registry[FunctionEntry]
    time: datetime
    effects: Effects
    at: Mapping[str, Version] = {}
    is_strict: bool = False
    is_real: bool = False


def plan_action(
    blueprint: Blueprint, spec: ActionSpec, cluster: Cluster, given: Circumstances
) -> Plan:
    """Plan an action. Only reads the cluster; what is not there is shown as not known.

    Secrets that were read are masked wherever they would appear.
    """
    action = blueprint.actions.get(spec.name)
    if action is None:
        raise action_not_found(spec, blueprint.name, blueprint)
    fetched = fetch_facts(cluster, spec, given.time)
    # A plan may be given less than a run: what is not there is no error, but what is there
    # and cannot be right is. Where nothing runs pods, a workload may be there, and what
    # stands between it and its pods may not.
    lacking = () if given.is_real else (NotFound, ObjectNotFetched)
    unread = [
        each.error.message
        for each in fetched.missing
        if isinstance(each.error, lacking) and not isinstance(each.error, OwnerMissing)
    ]
    wrong = [each.error.message for each in fetched.missing if not isinstance(each.error, lacking)]
    params = Params(fetched.facts)
    renderer = renderer_of(blueprint, spec.name, given.effects)
    analysis = ActionAnalysis(blueprint, spec.name, renderer.engine)
    basis = PlanBasis(
        analysis,
        renderer,
        params,
        load_function,
        _pods_to_come(fetched.facts),
        unused=unused_options(spec, [*analysis.reads()]),
        preferred=spec.preferred_version,
    )
    choices = [_choice(each, spec, given) for _, each in action.every_phase()]
    seen = run_preflight(basis, choices, cluster)
    masker = Masker(params.secret_texts())
    phases = [
        _masked(_with_errors(each, unread, is_real=given.is_real), masker) for each in seen.phases
    ]
    errors = [masker.mask(each.message) for each in seen.obstacles if each.phase is None]
    errors += [masker.mask(each) for each in wrong]
    return Plan(
        blueprint.name,
        spec.name,
        tuple(phases),
        tuple(dict.fromkeys(unread)),
        tuple(errors),
        tuple(dict.fromkeys([*messages_of_missing_inputs(blueprint, spec), *seen.unchecked])),
        tuple(_masked_unknown(seen.unknown, masker)),
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


def _with_errors(phase: PlannedPhase, unread: list[str], *, is_real: bool) -> PlannedPhase:
    """Take what is not in a cluster in memory for what the plan was not given."""
    if not is_real:
        unread += [each.message for each in phase.obstacles if each.reason == MISSING]
    errors = [each.message for each in phase.obstacles if is_real or each.reason != MISSING]
    return phase._replace(errors=tuple(errors))


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


def _masked_unknown(unknown: Iterable[Unknown], masker: Masker) -> Iterator[Unknown]:
    for each in unknown:
        yield each._replace(why=masker.mask(each.why))


def _masked(phase: PlannedPhase, masker: Masker) -> PlannedPhase:
    return phase._replace(
        args=masker.mask_data(dict(phase.args)),
        condition=masker.mask(phase.condition),
        errors=tuple(map(masker.mask, phase.errors)),
        unknown=tuple(_masked_unknown(phase.unknown, masker)),
        accesses=tuple(
            each._replace(namespace=masker.mask(each.namespace), name=masker.mask(each.name))
            for each in phase.accesses
        ),
    )
