"""Python interface for runs: run, plan, resume and retry the actions of Blueprints.

`wiring` builds the components of a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kanister_py import wiring
from kanister_py.core.actionsets.model import parse_action_spec
from kanister_py.core.blueprints.model import LocatedBlueprint
from kanister_py.core.errors import UsageError
from kanister_py.core.versions.semver import Version
from kanister_py.core.yaml.documents import parse_document
from kanister_py.executor.plan_action import Circumstances, Plan, plan_action
from kanister_py.executor.run.background import Run
from kanister_py.executor.run.header import (
    Header,
    artifacts_of,
    build_action,
    header_for_retry,
    header_of_action,
    header_of_actionset,
    new_name,
)
from kanister_py.executor.run.settings import RunSettings
from kanister_py.ports.cluster import Cluster

__all__ = [
    "RunSettings",
    "plan_blueprint",
    "read_artifacts",
    "read_hosting",
    "resume_run",
    "retry_run",
    "run",
    "run_actionset",
    "run_blueprint",
]


def run_blueprint(
    blueprint: LocatedBlueprint | Mapping[str, Any] | str | Path,
    action: str,
    *,
    object: str | Mapping[str, Any] | None = None,  # noqa: A002 # as an ActionSet calls it
    options: Mapping[str, str] | None = None,
    settings: RunSettings | None = None,
    **action_fields: Any,
) -> Run:
    """Run an action of a Blueprint, and return the started run.

    `object` is a reference, or text such as `Kind/namespace/name`. `action_fields` are other fields
    of an action in an ActionSet, in snake case (`preferred_version`, `pod_labels`). `settings`
    select the cluster and the options of the run.
    """
    settings = settings or RunSettings()
    namespace = settings.namespace
    located, spec = build_action(blueprint, action, object, options, namespace, action_fields)
    return wiring.start_run(header_of_action(located, spec, settings.name, namespace), settings)


def plan_blueprint(
    blueprint: LocatedBlueprint | Mapping[str, Any] | str | Path,
    action: str,
    *,
    object: str | Mapping[str, Any] | None = None,  # noqa: A002 # as an ActionSet calls it
    options: Mapping[str, str] | None = None,
    at: Mapping[str, Version] | None = None,
    settings: RunSettings | None = None,
    **action_fields: Any,
) -> Plan:
    """Plan `run_blueprint` without side effects. `at` maps packages to other releases."""
    settings = settings or RunSettings()
    namespace = settings.namespace
    located, spec = build_action(blueprint, action, object, options, namespace, action_fields)
    clock = settings.clock or wiring.system_clock()
    registry = settings.registry or wiring.read_functions().registry
    effects = wiring.system_effects(clock)
    is_real = settings.cluster is not None
    circumstances = Circumstances(
        registry, clock.now(), effects, at or {}, settings.is_strict, is_real
    )
    with ExitStack() as stack:
        cluster, _, _ = wiring.cluster_of(settings, clock, stack)
        action_spec = parse_action_spec(parse_document(json.dumps(spec)))
        return plan_action(located.blueprint, action_spec, cluster, circumstances)


def run(
    blueprint: LocatedBlueprint | Mapping[str, Any] | str | Path,
    action: str,
    *,
    objects: Sequence[Mapping[str, Any]] = (),
    cluster: Cluster | None = None,
    functions: Sequence[Any] = (),
    state: Path | None = None,
    pods: str = "",
    locations: Path | None = None,
    **action_fields: Any,
) -> Run:
    """Run an action of a Blueprint in the background; call `wait()` for its end.

    outcome = kanister_py.run("blueprint.yaml", "hello", objects=[...]).wait()

    assert outcome.is_complete, outcome.error

    `functions` are classes that replace all registered functions. `action_fields` are passed to
    `run_blueprint`.
    """
    settings = RunSettings(
        objects=tuple(objects),
        cluster=cluster,
        state=state,
        pods=pods,
        locations=locations,
        registry=wiring.registry_of(*functions) if functions else None,
    )
    return run_blueprint(blueprint, action, settings=settings, **action_fields)


def run_actionset(
    actionset: Mapping[str, Any],
    blueprints: Sequence[LocatedBlueprint | Mapping[str, Any]],
    settings: RunSettings | None = None,
) -> Run:
    """Run an ActionSet with its Blueprints.

    The settings provide a name and a namespace if the metadata have none.
    """
    settings = settings or RunSettings()
    header = header_of_actionset(actionset, blueprints, settings.name, settings.namespace)
    return wiring.start_run(header, settings)


def resume_run(name: str, settings: RunSettings) -> Run:
    """Resume an interrupted run, or the last run if no name is given."""
    _check_state(settings)
    return wiring.start_run(None, settings, name)


def retry_run(name: str, from_phase: str, settings: RunSettings) -> Run:
    """Retry an earlier run from a phase, with the results of the phases before it."""
    _check_state(settings)
    with wiring.state_folder(settings) as folder:
        recorded = folder.read_run(name)
    new = settings.name or new_name(recorded.name)
    header = header_for_retry(Header.of(recorded.header), recorded.outcomes, from_phase, new)
    return wiring.start_run(header, settings)


def _check_state(settings: RunSettings) -> None:
    """Raise UsageError if the state folder does not exist; opening it would create it."""
    if settings.state is not None and not Path(settings.state).exists():
        message = f"State folder {settings.state} does not exist, so it contains no run"
        raise UsageError(message, reason="RunNotFound")


def read_hosting(name: str, settings: RunSettings) -> RunSettings:
    """Return settings with the pod runner and store locations of an earlier run.

    Values in the given settings take precedence.
    """
    _check_state(settings)
    with wiring.state_folder(settings) as folder:
        header = folder.read_run(name).header
    pods, locations = settings.pods or str(header.get("pods") or ""), settings.locations
    if pods and locations is None and header.get("locations"):
        locations = Path(str(header["locations"]))
    return settings._replace(pods=pods, locations=locations)


def read_artifacts(name: str, settings: RunSettings) -> dict[str, Any]:
    """Return the artifacts of an earlier run in a state folder."""
    _check_state(settings)
    with wiring.state_folder(settings) as folder:
        recorded = folder.read_run(name)
    return artifacts_of(Header.of(recorded.header), recorded.outcomes)
