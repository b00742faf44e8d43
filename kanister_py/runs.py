"""Runs from Python: run, plan, take up and repeat the actions of blueprints.

What a run needs is brought together in `wiring`; here is only what runs.
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
    **more: Any,
) -> Run:
    """Run one action of a blueprint, and give the run, which is under way.

    `object` is what it acts on, as a reference or as `Kind/namespace/name`. All else
    that an ActionSet's action may say goes into `more`, in its words in Python
    (`preferred_version`, `pod_labels`); where and how it runs, into `settings`.
    """
    settings = settings or RunSettings()
    where = settings.namespace
    located, spec = build_action(blueprint, action, object, options, where, more)
    return wiring.start_run(header_of_action(located, spec, settings.name, where), settings)


def plan_blueprint(
    blueprint: LocatedBlueprint | Mapping[str, Any] | str | Path,
    action: str,
    *,
    object: str | Mapping[str, Any] | None = None,  # noqa: A002 # as an ActionSet calls it
    options: Mapping[str, str] | None = None,
    at: Mapping[str, Version] | None = None,
    settings: RunSettings | None = None,
    **more: Any,
) -> Plan:
    """Say what `run_blueprint` would do, without doing it; `at` names other releases."""
    settings = settings or RunSettings()
    where = settings.namespace
    located, spec = build_action(blueprint, action, object, options, where, more)
    clock = settings.clock or wiring.system_clock()
    registry = settings.registry or wiring.read_functions().registry
    effects = wiring.system_effects(clock)
    is_real = settings.cluster is not None
    given = Circumstances(registry, clock.now(), effects, at or {}, settings.is_strict, is_real)
    with ExitStack() as stack:
        cluster, _, _ = wiring.cluster_of(settings, clock, stack)
        wanted = parse_action_spec(parse_document(json.dumps(spec)))
        return plan_action(located.blueprint, wanted, cluster, given)


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
    **more: Any,
) -> Run:
    """Run one action of a blueprint in the background; `wait()` for its end.

        outcome = kanister_py.run("blueprint.yaml", "hello", objects=[...]).wait()
        assert outcome.is_complete, outcome.error

    `functions` are classes of your own, in place of all others; `more` is as for
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
    return run_blueprint(blueprint, action, settings=settings, **more)


def run_actionset(
    actionset: Mapping[str, Any],
    blueprints: Sequence[LocatedBlueprint | Mapping[str, Any]],
    settings: RunSettings | None = None,
) -> Run:
    """Run an ActionSet as its manifest states it, with the blueprints it names.

    What its metadata leave out, the settings say.
    """
    settings = settings or RunSettings()
    header = header_of_actionset(actionset, blueprints, settings.name, settings.namespace)
    return wiring.start_run(header, settings)


def resume_run(name: str, settings: RunSettings) -> Run:
    """Take up a run where its process left it; the last one, if no name is given."""
    _check_state(settings)
    return wiring.start_run(None, settings, name)


def retry_run(name: str, from_phase: str, settings: RunSettings) -> Run:
    """Start a run anew that takes over what an earlier one completed before a phase."""
    _check_state(settings)
    with wiring.state_folder(settings) as folder:
        recorded = folder.read_run(name)
    new = settings.name or new_name(recorded.name)
    header = header_for_retry(Header.of(recorded.header), recorded.outcomes, from_phase, new)
    return wiring.start_run(header, settings)


def _check_state(settings: RunSettings) -> None:
    """Refuse to look for an earlier run in a folder that is not there, which would be made."""
    if settings.state is not None and not Path(settings.state).exists():
        message = f"State folder {settings.state} is not there: no run was kept in it"
        raise UsageError(message, reason="RunNotFound")


def read_hosting(name: str, settings: RunSettings) -> RunSettings:
    """Give settings with what ran an earlier run's pods, and what stood in for its stores.

    What the settings say themselves counts.
    """
    _check_state(settings)
    with wiring.state_folder(settings) as folder:
        header = folder.read_run(name).header
    pods, locations = settings.pods or str(header.get("pods") or ""), settings.locations
    if pods and locations is None and header.get("locations"):
        locations = Path(str(header["locations"]))
    return settings._replace(pods=pods, locations=locations)


def read_artifacts(name: str, settings: RunSettings) -> dict[str, Any]:
    """Give what an earlier run in a state folder left behind."""
    _check_state(settings)
    with wiring.state_folder(settings) as folder:
        recorded = folder.read_run(name)
    return artifacts_of(Header.of(recorded.header), recorded.outcomes)
