"""Plan of an action: its phases as they would run, with rendered arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from kanister_py.core.actionsets.course import action_not_found
from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.model import ActionSpec
from kanister_py.core.blueprints.analysis import ActionAnalysis
from kanister_py.core.blueprints.model import Blueprint, Phase
from kanister_py.core.blueprints.options import (
    Option,
    open_options,
    option_problems,
    unused_option_messages,
    unused_options,
)
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
    missing_input_messages,
    run_preflight,
)
from kanister_py.gotemplate.effects import Effects
from kanister_py.ports.cluster import Cluster


class Plan(NamedTuple):
    """The phases of an action in execution order, and the problems of the plan.

    `errors` are problems of the action outside of its phases. `unchecked` are objects and
    declared inputs that are missing but may exist in time. `unknown` are values of the
    artifacts that are not known yet. `options` are the declared options of the action,
    `missing_options` the reasons for required ones that are not given, and `warnings` are about
    options that no template reads.
    """

    blueprint: str
    action: str
    phases: tuple[PlannedPhase, ...]
    unread: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    options: Mapping[str, Option] = {}
    missing_options: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "blueprint": self.blueprint,
            "action": self.action,
            "unread": [*self.unread, *self.unchecked],
            "phases": [phase.as_dict() for phase in self.phases],
        }
        if self.options:
            data["options"] = {
                name: option.model_dump(mode="json", by_alias=True, exclude_defaults=True)
                for name, option in self.options.items()
            }
        if self.warnings:
            data["warnings"] = list(self.warnings)
        if self.unknown:
            data["unknown"] = [unknown.as_dict() for unknown in self.unknown]
        if self.errors:
            data["errors"] = list(self.errors)
        return data

    @property
    def has_errors(self) -> bool:
        return bool(self.errors) or any(phase.errors for phase in self.phases)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Reasons for unknown texts, except for outputs of phases."""
        to_run = [phase for phase in self.phases if not phase.skipped]
        unknowns = (*self.unknown, *(one for phase in to_run for one in phase.unknown))
        reasons = [unknown.why for unknown in unknowns if unknown.why]
        return (*reasons, *self.missing_options)


class Circumstances(NamedTuple):
    """Circumstances of a plan: the registry of functions, the time, and settings.

    `at` maps packages to releases to assume instead of the installed ones. `is_real` means that
    the cluster is the target of the run, so that missing objects are errors.
    """

    registry: Registry[FunctionEntry]
    time: datetime
    effects: Effects
    at: Mapping[str, Version] = {}
    is_strict: bool = False
    is_real: bool = False


def plan_action(
    blueprint: Blueprint, spec: ActionSpec, cluster: Cluster, circumstances: Circumstances
) -> Plan:
    """Plan an action. Only reads the cluster; missing values are shown as unknown.

    Values of Secrets that were read are masked everywhere.
    """
    action = blueprint.actions.get(spec.name)
    if action is None:
        raise action_not_found(spec, blueprint.name, blueprint)
    fetched = fetch_facts(cluster, spec, circumstances.time, action=action)
    # A plan may be made with fewer objects than a run. A missing object is then no error, but an
    # invalid one is. Where no pods run, a workload may exist without its ReplicaSets.
    lacking = () if circumstances.is_real else (NotFound, ObjectNotFetched)
    unread = [
        fact.error.message
        for fact in fetched.missing
        if isinstance(fact.error, lacking) and not isinstance(fact.error, OwnerMissing)
    ]
    wrong = [fact.error.message for fact in fetched.missing if not isinstance(fact.error, lacking)]
    params = Params(fetched.facts)
    renderer = renderer_of(blueprint, spec.name, circumstances.effects)
    analysis = ActionAnalysis(blueprint, spec.name, renderer.engine)
    reads = [read.names for read in analysis.reads()]
    missing_options = open_options(action, spec.options)
    basis = PlanBasis(
        analysis,
        renderer,
        params,
        load_function,
        {**_pending_pods(fetched.facts), **missing_options},
        unused=unused_options(spec.options, reads),
        preferred=spec.preferred_version,
    )
    choices = [_choice(phase, spec, circumstances) for _, phase in action.every_phase()]
    seen = run_preflight(basis, choices, cluster)
    masker = Masker(params.secret_texts())
    phases = [
        _masked(_with_errors(phase, unread, is_real=circumstances.is_real), masker)
        for phase in seen.phases
    ]
    errors = [
        masker.mask(obstacle.message) for obstacle in seen.obstacles if obstacle.phase is None
    ]
    errors += [masker.mask(message) for message in wrong]
    errors += [
        problem.message
        for problem in option_problems(blueprint.actions, spec.name, spec.options)
        if not problem.is_missing
    ]
    unused = unused_option_messages(blueprint.actions, spec.name, spec.options, reads)
    return Plan(
        blueprint.name,
        spec.name,
        tuple(phases),
        tuple(dict.fromkeys(unread)),
        tuple(errors),
        tuple(dict.fromkeys([*missing_input_messages(blueprint, spec), *seen.unchecked])),
        tuple(_masked_unknown(seen.unknown, masker)),
        action.options,
        tuple(missing_options.values()),
        tuple(message for _option, message in unused),
    )


def _choice(
    phase: Phase, spec: ActionSpec, circumstances: Circumstances
) -> Choice[FunctionEntry] | KanisterError:
    try:
        return choose_phase_version(
            circumstances.registry,
            phase,
            spec.preferred_version,
            at=circumstances.at,
            strict=circumstances.is_strict,
        )
    except KanisterError as error:
        return error


def _with_errors(phase: PlannedPhase, unread: list[str], *, is_real: bool) -> PlannedPhase:
    """Set the errors of a phase. Unless `is_real`, missing objects are added to `unread` instead.

    `unread` is modified.
    """
    if not is_real:
        unread += [obstacle.message for obstacle in phase.obstacles if obstacle.reason == MISSING]
    errors = [
        obstacle.message for obstacle in phase.obstacles if is_real or obstacle.reason != MISSING
    ]
    return phase._replace(errors=tuple(errors))


def _pending_pods(facts: ActionFacts) -> Mapping[tuple[str, ...], str]:
    """Map the facts about a workload's pods to a reason, if none of the pods runs yet."""
    workload = facts.workload
    is_empty = spec_of(facts.object or {}).get("replicas") == 0
    if workload is None or workload.pods or is_empty:
        return {}
    root = next(
        name
        for name, workload_object in (
            ("StatefulSet", facts.stateful_set),
            ("Deployment", facts.deployment),
            ("DeploymentConfig", facts.deployment_config),
        )
        if workload_object is not None
    )
    why = f"the pods of {root} {workload.name} are not running yet"
    return {(root, field): why for field in OF_PODS}


def _masked_unknown(unknown: Iterable[Unknown], masker: Masker) -> Iterator[Unknown]:
    for value in unknown:
        yield value._replace(why=masker.mask(value.why))


def _masked(phase: PlannedPhase, masker: Masker) -> PlannedPhase:
    return phase._replace(
        args=masker.mask_data(dict(phase.args)),
        condition=masker.mask(phase.condition),
        errors=tuple(map(masker.mask, phase.errors)),
        unknown=tuple(_masked_unknown(phase.unknown, masker)),
        accesses=tuple(
            access._replace(namespace=masker.mask(access.namespace), name=masker.mask(access.name))
            for access in phase.accesses
        ),
    )
