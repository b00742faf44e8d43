"""Contract of clusters, tested on the embedded one."""

from __future__ import annotations

import pytest

from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import Cluster
from tests.contracts.cluster import ClusterContract
from tests.fake_clock import FakeClock


class TestTheEmbeddedCluster(ClusterContract):
    """The fake clock advances to the deadline of a waiting watch."""

    @pytest.fixture
    def cluster(self) -> Cluster:
        return MemoryCluster(clock=FakeClock(jumps=True))

    def forget_history(self, cluster: Cluster) -> None:
        assert isinstance(cluster, MemoryCluster)
        cluster.compact()
