"""The embedded cluster keeps the contract."""

from __future__ import annotations

import pytest

from kanister_py.adapters.clock_fake import FakeClock
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import Cluster
from tests.contracts.cluster import ClusterContract


class TestTheEmbeddedCluster(ClusterContract):
    """Its clock jumps: a watch that waits for its end is at its end."""

    @pytest.fixture
    def cluster(self) -> Cluster:
        return MemoryCluster(clock=FakeClock(jumps=True))

    def forget_history(self, cluster: Cluster) -> None:
        assert isinstance(cluster, MemoryCluster)
        cluster.compact()
