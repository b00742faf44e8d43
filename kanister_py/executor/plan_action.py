"""Reads what an action's templates would see, and plans its phases without running any."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from kanister_py.core.actionsets.course import ActionNotFound
from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.model import ActionSpec, artifacts_as_dict, reference_as_dict
from kanister_py.core.actionsets.status import text_of_moment
from kanister_py.core.blueprints.model import Blueprint, Phase
from kanister_py.core.blueprints.plan import Known, PlannedPhase, plan_phase
from kanister_py.core.blueprints.rendering import renderer_of
from kanister_py.core.errors import KanisterError
from kanister_py.core.objects.parts import spec_of
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.templates.facts import (
    ActionFacts,
    Workload,
    facts_of_object,
    needs_of,
    needs_of_phase,
)
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Renderer
from kanister_py.core.versions.semver import Version
from kanister_py.executor.fetching import fetch, fetch_facts
from kanister_py.executor.loading import load_function
from kanister_py.gotemplate import Effects
from kanister_py.ports.cluster import Cluster


class Plan(NamedTuple):
    """The phases of an action in the order they would run, and what could not be read."""

    blueprint: str
    action: str
    phases: tuple[PlannedPhase, ...]
    unread: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "blueprint": self.blueprint,
            "action": self.action,
            "unread": list(self.unread),
            "phases": [each.as_dict() for each in self.phases],
        }

    @property
    def has_errors(self) -> bool:
        return any(each.error for each in self.phases)


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
    unread: list[str] = []
    facts = _facts(cluster, spec, given.time, unread)
    params = Params(facts)
    renderer = renderer_of(blueprint, spec.name, given.effects)
    known = Known(
        given.registry,
        renderer,
        params,
        load_function,
        spec.preferred_version,
        given.at,
        given.is_strict,
        _pods_to_come(facts),
    )
    phases = []
    for path, phase in action.every_phase():
        is_deferred = path == ("deferPhase",)
        _enter(phase, renderer, params, cluster, unread, is_deferred=is_deferred)
        phases.append(plan_phase(phase, known, is_deferred=is_deferred))
    masker = Masker(params.secret_texts())
    masked = tuple(_masked(each, masker) for each in phases)
    return Plan(blueprint.name, spec.name, masked, tuple(dict.fromkeys(unread)))


def _facts(cluster: Cluster, spec: ActionSpec, time: datetime, unread: list[str]) -> ActionFacts:
    reference = reference_as_dict(spec.object)
    name, namespace = reference["name"], reference["namespace"]
    try:
        return fetch_facts(cluster, spec, time)
    except KanisterError as error:
        why = error.message
    with suppress(KanisterError):
        # Where nothing runs pods, a workload may be there, and what stands between it
        # and its pods may not.
        return fetch_facts(cluster, spec, time, Workload(name, namespace))
    unread.append(why)
    stand_in = {"metadata": {"name": name, "namespace": namespace}}
    try:
        needs = needs_of(reference)
        workload = Workload(name, namespace) if needs.workload is not None else None
        seen = facts_of_object(reference, stand_in, workload)
    except KanisterError:
        seen = {}
    return ActionFacts(
        time=text_of_moment(time),
        artifacts=artifacts_as_dict(spec.artifacts),
        options=spec.options,
        pod_override=spec.pod_override,
        pod_labels=spec.pod_labels,
        pod_annotations=spec.pod_annotations,
        **seen,
    )


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
    return {(root, field): why for field in ("Pods", "Containers", "PersistentVolumeClaims")}


def _enter(
    phase: Phase,
    renderer: Renderer,
    params: Params,
    cluster: Cluster,
    unread: list[str],
    *,
    is_deferred: bool,
) -> None:
    """Let templates see the objects of a phase that are there."""
    secrets: dict[str, Mapping[str, Any]] = {}
    config_maps: dict[str, Mapping[str, Any]] = {}
    for name, reference in phase.objects.items():
        try:
            rendered = renderer.references({name: reference.as_dict()}, params, ("objects",))
            for need in needs_of_phase(rendered).values():
                into = secrets if need.resource.resource == "secrets" else config_maps
                into[name] = fetch(cluster, need)
        except KanisterError as error:
            unread.append(error.message)
    if is_deferred:
        params.enter_defer_phase(secrets, config_maps)
    else:
        params.enter_phase(phase.name, secrets, config_maps)


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
