"""Fencing: a process that is no longer the leader cannot send requests any longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kanister_py.ports.cluster import Cluster


class FencedCluster:
    """Cluster that calls `check` before every request. `check` raises if it is not allowed.

    Functions may still run in threads of a former leader. Their next request fails.
    """

    def __init__(self, cluster: Cluster, check: Callable[[], None]) -> None:
        self._cluster = cluster
        self._check = check

    def as_cluster(self) -> Cluster:
        """Return this object typed as a cluster: all calls are forwarded."""
        return cast("Cluster", self)

    def acting_as(self, user: str) -> Cluster:
        return FencedCluster(self._cluster.acting_as(user), self._check).as_cluster()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._cluster, name)
        if not callable(attribute):
            return attribute
        check = self._check

        def call(*args: Any, **options: Any) -> Any:
            check()
            return attribute(*args, **options)

        # Cached, because every request of a run goes through here.
        self.__dict__[name] = call
        return call
