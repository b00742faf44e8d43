"""Installation of our CustomResourceDefinitions: comparison, creation and upgrade."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import Expired, NotFound, TransientError
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.differences import Difference, differences_of
from kanister_py.core.kube.parts import is_true
from kanister_py.core.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from kanister_py.core.retries import retry_on_conflict
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, EventType, KubeObject

_MANAGER: Final = "kanister-py"
_OF_BLUEPRINTS: Final = ("cr.kanister.io", "kanister-py.io")
# Retries of conflicts: the cluster changes the status of a definition while it establishes it.
_RETRIES: Final = 4
_ESTABLISH_SECONDS: Final = 30.0


class Step(StrEnum):
    """Step of an installation; the value is its past participle."""

    CREATED = "created"
    UPGRADED = "upgraded"
    UNCHANGED = "unchanged"
    LEFT = "left as it is"
    """It differs from our definition, but replacing was not requested."""


class Change(NamedTuple):
    """Change of one definition, done or planned, and its differences."""

    name: str
    step: Step
    differences: tuple[Difference, ...] = ()


Guard = Callable[[KubeObject], None]
"""Raises an error if an existing definition must not be replaced."""


def read_definitions(only: str = "") -> list[dict[str, Any]]:
    """Read all definitions, or only the ones for `blueprints` or `compositions`."""
    definitions = []
    for path in sorted((Path(__file__).parent.parent / "crds").glob("*.yaml")):
        definitions += [
            document.value for document in parse_documents(path.read_bytes(), path.name)
        ]
    if not only:
        return definitions
    is_ours = only == "blueprints"
    return [
        definition
        for definition in definitions
        if (definition["spec"]["group"] in _OF_BLUEPRINTS) is is_ours
    ]


def install_definitions(
    cluster: Cluster,
    clock: Clock,
    manifests: Sequence[Mapping[str, Any]],
    guard: Guard,
    *,
    replaces: bool,
    dry_run: bool = False,
) -> Iterator[Change]:
    """Install definitions, and yield the change of each one once the cluster serves it.

    Idempotent. Before anything is changed, `guard` checks all definitions that will be replaced.
    """
    planned = [_planned(cluster, manifest, replaces=replaces) for manifest in manifests]
    for existing, change in planned:
        if change.step is Step.UPGRADED and existing is not None:
            guard(existing)
    for manifest, (_, change) in zip(manifests, planned, strict=True):
        if change.step is Step.CREATED and not dry_run:
            cluster.create(manifest, field_manager=_MANAGER)
        elif change.step is Step.UPGRADED and not dry_run:
            _replace(cluster, manifest)
        if change.step in (Step.CREATED, Step.UPGRADED) and not dry_run:
            _wait_until_served(cluster, clock, change.name)
        yield change


def _planned(
    cluster: Cluster, manifest: Mapping[str, Any], *, replaces: bool
) -> tuple[KubeObject | None, Change]:
    name = str(manifest["metadata"]["name"])
    try:
        existing = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFound:
        return None, Change(name, Step.CREATED)
    # The result of a dry run contains the defaults of the cluster, as the existing one does.
    would_be = cluster.replace(_merged(existing, manifest), dry_run=True, field_manager=_MANAGER)
    differences = tuple(differences_of({"spec": existing["spec"]}, {"spec": would_be["spec"]}))
    if not differences:
        return existing, Change(name, Step.UNCHANGED)
    return existing, Change(name, Step.UPGRADED if replaces else Step.LEFT, differences)


def _merged(existing: KubeObject, manifest: Mapping[str, Any]) -> KubeObject:
    """Return an existing definition with our spec. Its metadata is kept."""
    merged: KubeObject = copy_json(existing)
    merged["spec"] = copy_json(manifest["spec"])
    return merged


def _replace(cluster: Cluster, manifest: Mapping[str, Any]) -> None:
    def replace() -> None:
        definition = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, str(manifest["metadata"]["name"]))
        cluster.replace(_merged(definition, manifest), field_manager=_MANAGER)

    retry_on_conflict(replace, _RETRIES)


def _wait_until_served(cluster: Cluster, clock: Clock, name: str) -> None:
    until = clock.monotonic() + _ESTABLISH_SECONDS
    while (left := until - clock.monotonic()) > 0:
        try:
            with cluster.watch(
                CUSTOM_RESOURCE_DEFINITIONS,
                field_selector=f"metadata.name={name}",
                timeout_seconds=left,
            ) as events:
                for event in events:
                    if event.type is not EventType.DELETED and is_true(event.object, "Established"):
                        return
        except Expired:
            continue
    raise TransientError(
        f"{name} is not served after {_ESTABLISH_SECONDS:.0f}s; check its conditions",
        reason="DefinitionNotServed",
    )
