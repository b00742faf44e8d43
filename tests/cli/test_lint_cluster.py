"""Lint of a cluster: findings with creation times and last runs."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli.lint_cluster import report_on
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Severity
from kanister_py.core.errors import Forbidden
from kanister_py.core.kube.resources import NAMESPACES, GroupVersionResource
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.check_namespace import NamespaceUnknown
from kanister_py.executor.install_definitions import read_definitions
from kanister_py.executor.loading import load_function
from kanister_py.ports.cluster import KubeObject
from kanister_py.wiring import read_functions
from tests.core.schedules.schedules import schedule

ARGS = argparse.Namespace(ignore=[])
TASK = {"name": "one", "func": "KubeTask", "args": {"image": "i", "command": ["c"]}}


@pytest.fixture
def cluster() -> MemoryCluster:
    memory_cluster = MemoryCluster(clock=SystemClock())
    for definition in read_definitions("blueprints"):
        memory_cluster.create(definition)
    for name in ("shop", "billing"):
        memory_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return memory_cluster


def blueprint(cluster: MemoryCluster, namespace: str, **phase: Any) -> str:
    created = cluster.create(
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Blueprint",
            "metadata": {"name": "b", "namespace": namespace},
            "actions": {"act": {"phases": [{**TASK, **phase}]}},
        }
    )
    since: str = created["metadata"]["creationTimestamp"]
    return since


def actionset(cluster: MemoryCluster, name: str, state: str, **action: Any) -> None:
    created = cluster.create(
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "ActionSet",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"actions": [{"name": "act", "blueprint": "b", **action}]},
        }
    )
    phase = {
        "name": "one",
        "state": state,
        "funcVersion": "v0.0.0",
        "startTime": "2026-01-02T00:00:00Z",
    }
    status = {"state": state, "actions": [{"name": "act", "blueprint": "b", "phases": [phase]}]}
    cluster.replace_status({**created, "status": status})


def found_on(cluster: MemoryCluster, namespace: str = "") -> list[Finding]:
    context = Context(read_functions().registry, load=load_function)
    report = report_on(cluster, namespace, context, ARGS)
    return [finding for finding in report.findings if finding.rule == "version-fallback"]


def test_findings_have_creation_time_and_last_run(cluster: MemoryCluster) -> None:
    since = blueprint(cluster, "shop", funcVersion="v9.0.0")
    blueprint(cluster, "billing", funcVersion="v8.0.0")
    actionset(cluster, "over", "complete")
    first, second = found_on(cluster)
    assert (first.file, first.version) == ("Blueprint billing/b", "v8.0.0")
    assert (second.file, second.since) == ("Blueprint shop/b", since)
    assert (first.last_run, second.last_run) == ("", "2026-01-02T00:00:00Z")
    assert second.line == 0, "there is no file whose line could be looked up"
    assert second.as_dict()["since"] == since


def test_one_namespace_is_checked_separately(cluster: MemoryCluster) -> None:
    blueprint(cluster, "shop", funcVersion="v9.0.0")
    blueprint(cluster, "billing", funcVersion="v8.0.0")
    assert [finding.file for finding in found_on(cluster, "billing")] == ["Blueprint billing/b"]


def test_missing_namespace_is_an_error(cluster: MemoryCluster) -> None:
    blueprint(cluster, "shop", funcVersion="v9.0.0")
    with pytest.raises(NamespaceUnknown) as refused:
        found_on(cluster, "shopp")
    assert (refused.value.name, refused.value.near) == ("shopp", ("shop",))
    assert "did you mean shop?" in refused.value.message
    assert found_on(cluster, "billing") == [], "there is nothing in it, and it is there"


class Confined(MemoryCluster):
    """A cluster for a user who may list objects in namespaces but no namespaces."""

    def get(self, resource: GroupVersionResource, name: str, **more: Any) -> KubeObject:
        if resource == NAMESPACES:
            raise Forbidden(f"{name} is not yours")
        return super().get(resource, name, **more)


def test_forbidden_namespaces_are_not_reported_as_missing() -> None:
    confined = Confined(clock=SystemClock())
    for definition in read_definitions("blueprints"):
        confined.create(definition)
    assert found_on(confined, "shopp") == []


def test_ended_actionsets_are_not_checked(cluster: MemoryCluster) -> None:
    blueprint(cluster, "shop")
    actionset(cluster, "over", "complete", preferredVersion="v9.0.0")
    assert found_on(cluster) == []
    context = Context(read_functions().registry, load=load_function)
    actionset(cluster, "works", "running", preferredVersion="v1")
    report = report_on(cluster, "", context, ARGS)
    assert (report.blueprints, report.action_sets) == (1, 1)
    assert [finding.file for finding in report.findings if finding.action] == [
        "ActionSet shop/works"
    ]


def test_schedule_is_checked_with_the_blueprint_of_its_namespace(
    cluster: MemoryCluster,
) -> None:
    blueprint(cluster, "shop")
    action = {"name": "acct", "blueprint": "b"}
    cluster.create(schedule(namespace="shop", template={"spec": {"actions": [action]}}))
    context = Context(read_functions().registry, load=load_function)
    report = report_on(cluster, "", context, ARGS)
    errors = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    assert [(finding.file, finding.rule) for finding in errors] == [
        ("Schedule shop/nightly", "action-unknown")
    ]
    assert report.schedules == 1
