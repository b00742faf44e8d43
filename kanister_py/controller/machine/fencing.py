"""Fencing: a cluster that refuses a process which may not act any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kanister_py.ports.cluster import Cluster


class FencedCluster:
    """A cluster that asks before every call whether it is allowed at all.

    A function that runs on in a thread of a leader that was is not the master of
    anything: whatever it tries next raises.
    """

    def __init__(self, cluster: Cluster, check: Callable[[], None]) -> None:
        self._cluster = cluster
        self._check = check

    def as_cluster(self) -> Cluster:
        """Give it as what it stands for."""
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

        # Every function of a run goes through here: the next call finds it at once.
        self.__dict__[name] = call
        return call
