"""The Kubernetes adapter keeps the contract of clusters, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice
from kanister_py.ports.cluster import Cluster
from tests.contracts.cluster import ClusterContract


class TestTheRealCluster(ClusterContract):
    @pytest.fixture
    def cluster(self, kubeconfig: Path) -> Iterator[Cluster]:
        with KubeCluster(ClusterChoice(kubeconfig=str(kubeconfig))) as cluster:
            yield cluster
