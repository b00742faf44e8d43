"""Contract of clusters, held to the embedded one."""

from __future__ import annotations

import pytest

from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import Cluster
from tests.contracts.cluster import ClusterContract
from tests.fake_clock import FakeClock


class TestTheEmbeddedCluster(ClusterContract):
    """Its clock jumps: a watch that waits for its end is at its end."""

    @pytest.fixture
    def cluster(self) -> Cluster:
        return MemoryCluster(clock=FakeClock(jumps=True))

    def forget_history(self, cluster: Cluster) -> None:
        assert isinstance(cluster, MemoryCluster)
        cluster.compact()
