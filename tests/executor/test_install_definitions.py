"""Installation of definitions: created, upgraded, or left as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli.crds import guard_on
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.install_definitions import (
    Change,
    Step,
    install_definitions,
    read_definitions,
)
from kanister_py.ports.cluster import KubeObject
from tests.raising import refused_as

BLUEPRINTS = "blueprints.cr.kanister.io"


def bring(cluster: MemoryCluster, **words: Any) -> dict[str, Change]:
    words = {"replaces": False, **words}
    changes = install_definitions(
        cluster, SystemClock(), read_definitions("blueprints"), guard_on(cluster), **words
    )
    return {change.name: change for change in changes}


def steps(changes: Mapping[str, Change]) -> set[Step]:
    return {change.step for change in changes.values()}


def older(cluster: MemoryCluster) -> KubeObject:
    """Install a definition of Blueprints like Kanister's, whose phases have no funcVersion."""
    manifest = copy_json(
        next(
            definition
            for definition in read_definitions("blueprints")
            if definition["metadata"]["name"] == BLUEPRINTS
        )
    )
    manifest["metadata"]["labels"] = {"owner": "them"}
    schema = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    action = schema["properties"]["actions"]["additionalProperties"]["properties"]
    del action["phases"]["items"]["properties"]["funcVersion"]
    return cluster.create(manifest)


def operator(cluster: MemoryCluster, replicas: int = 1) -> None:
    pod = {"containers": [{"name": "c", "image": "kanisterio/controller:0.114.0"}]}
    cluster.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "op", "namespace": "kanister"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
            },
        }
    )


def test_installing_twice_changes_nothing_the_second_time() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    assert steps(bring(cluster)) == {Step.CREATED}
    before = cluster.list(CUSTOM_RESOURCE_DEFINITIONS).items
    assert [definition["metadata"]["name"] for definition in before] == [
        "actionsets.cr.kanister.io",
        BLUEPRINTS,
        "profiles.cr.kanister.io",
        "referencegrants.kanister-py.io",
        "schedules.kanister-py.io",
    ]
    assert steps(bring(cluster)) == {Step.UNCHANGED}
    assert steps(bring(cluster, replaces=True)) == {Step.UNCHANGED}
    assert cluster.list(CUSTOM_RESOURCE_DEFINITIONS).items == before


def test_installing_keeps_a_different_definition_and_reports_the_differences() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    before = older(cluster)
    changes = bring(cluster)
    assert changes[BLUEPRINTS].step is Step.LEFT
    (difference,) = changes[BLUEPRINTS].differences
    assert difference.path.endswith("phases.items.properties.funcVersion")
    assert (difference.before, bool(difference.after)) == ("", True)
    assert cluster.get(CUSTOM_RESOURCE_DEFINITIONS, BLUEPRINTS) == before


def test_a_dry_run_reports_an_upgrade_and_changes_nothing() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    before = older(cluster)
    changes = bring(cluster, replaces=True, dry_run=True)
    assert changes[BLUEPRINTS].step is Step.UPGRADED
    assert cluster.list(CUSTOM_RESOURCE_DEFINITIONS).items == [before]


def test_an_upgrade_adds_our_fields_and_keeps_the_owner() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    before = older(cluster)
    assert bring(cluster, replaces=True)[BLUEPRINTS].step is Step.UPGRADED
    after = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, BLUEPRINTS)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["labels"] == {"owner": "them"}
    assert steps(bring(cluster)) == {Step.UNCHANGED}


def test_no_definition_is_replaced_while_kanisters_operator_runs() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    before = older(cluster)
    operator(cluster)
    with refused_as("AnotherController", match="Deployment kanister/op"):
        bring(cluster, replaces=True)
    assert cluster.list(CUSTOM_RESOURCE_DEFINITIONS).items == [before]


def test_an_operator_without_replicas_does_not_block_an_upgrade() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    older(cluster)
    operator(cluster, replicas=0)
    assert bring(cluster, replaces=True)[BLUEPRINTS].step is Step.UPGRADED
