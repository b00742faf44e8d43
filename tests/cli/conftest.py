"""Fixtures for tests of commands: a cluster in memory with workloads and a Blueprint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.install_definitions import read_definitions


@pytest.fixture
def shop_cluster() -> MemoryCluster:
    """A cluster with the namespace `shop`, three workloads and the Blueprint `mysql`."""
    cluster = MemoryCluster(clock=SystemClock(), default_namespace="shop")
    for definition in read_definitions("blueprints"):
        cluster.create(definition)
    labels = {"app": "db"}
    cluster.load(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            _workload("StatefulSet", "db", labels),
            _workload("Deployment", "web", labels),
            _workload("Deployment", "other", {"app": "x"}),
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "Blueprint",
                "metadata": {"name": "mysql", "namespace": "shop"},
                "actions": {"backup": {"phases": [{"name": "dump", "func": "KubeTask"}]}},
            },
        ]
    )
    return cluster


def _workload(kind: str, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "labels": dict(labels)},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
        },
    }
